"""Finds files that can be deleted from a results folder, and the rules that protect the others. Read-only.

Deletable: checkpoints of finished runs; tensors of orphans (runs that no sweep file names, provided every sweep file can be read);
temporary files of killed writers; locks of dead processes; Ray's own state, which is never read again; with `weights`, also the weights
and snapshots of finished runs that no rule protects.

Never deleted (RULES): the ledger's JSON, spec.yaml, history and hypotheses; every file of a run that a live process holds or whose sweep
is running; checkpoints from which an unfinished, failed or stopped run resumes; weights that another row starts from or that a decoding
or an analysis needs; symbolic links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.ledger import object_store
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import owner, record_of
from orchestrator.ledger.run_view import FINISHED, RunView, scorings_of
from orchestrator.ledger.sweep_files import Sweeps, read_sweeps, sweep_name
from orchestrator.lifecycle.references import RunReferences

RUN = re.compile(r"[0-9a-f]{16}")
TRASH, LOCK = ".trash", ".lifecycle.lock"
LEFTOVER = re.compile(r"\.(?:import|repro)-[0-9]+-[0-9a-f]{8}")
KILLED = "left by a writer that was killed"

RULES = {
    "running": "a live process holds the run, or drives a sweep that names it",
    "resume": "the run is not finished: the same command goes on from here",
    "only-weights": "its weights are not here: a missing translation would need this checkpoint",
    "init_from": "another row starts from these weights",
    "decode": "a translation or a score is still missing, or no sweep file says which are wanted",
    "analysis": "an analysis looks at this row",
    "weights": "weights stay unless --weights is given",
    "unreadable": "a sweep file cannot be read, so that no run counts as an orphan",
    "link": "a link: what it leads to is not this folder's",
}


@dataclass(frozen=True)
class Item:
    """One path that can be deleted, or, with a rule (a name in RULES), one that is protected.

    kind: checkpoints | weights | snapshots | temporary | lock | ray | leftover | link | run. run: name of its folder, or ''.
    """

    path: Path
    kind: str
    size: int
    why: str
    run: str = ""
    row: str = ""
    rule: str = ""

    def as_json(self) -> dict[str, Any]:
        found = asdict(self) | {"path": str(self.path), "bytes": self.size}
        return {name: value for name, value in found.items() if name != "size" and (name != "rule" or value)}


@dataclass
class Garbage:
    """Result of `find`: deletable items, protected ones, and messages."""

    items: list[Item] = field(default_factory=list)
    kept: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, path: Path, kind: str, why: str = "", run: str = "", row: str = "", rule: str = "") -> None:
        item = Item(path, kind, size_of(path), why or RULES[rule], run, row, rule)
        (self.kept if rule else self.items).append(item)


@dataclass(frozen=True)
class _Run:
    """What the rules look at. named: rows of sweep files; orphan: no sweep names the run, and every sweep file can be read."""

    path: Path
    key: str
    row: str
    addresses: set[str]
    status: str | None
    sweeps: Sweeps

    @property
    def orphan(self) -> bool:
        sweeps = self.sweeps
        return bool(sweeps.names) and not sweeps.unreadable and self.key not in sweeps.rows and self.key not in sweeps.children

    def unscored(self) -> str:
        """Name of the first row that lacks a score, or whose score is the record of another key; '' if all are scored."""
        for named in self.sweeps.rows.get(self.key, []):
            try:
                scores = RunView.read(Ledger(self.path.parent), scorings_of(named.row)).scores
            except UserError:
                return named.name
            if None in scores.values():
                return named.name
        return ""

    def rule(self, kind: str, references: RunReferences, weights: bool) -> tuple[str, str]:
        """(Rule that protects the checkpoints, weights or snapshots or '', reason)."""
        of_weights = kind != "checkpoints"
        if of_weights and (children := [named.name for named in self.sweeps.children.get(self.key, [])]):
            return "init_from", f"{_abbreviate(children)} starts from them"
        if of_weights and self.addresses & references.parents:
            return "init_from", RULES["init_from"]
        if of_weights and (found := sorted(self.addresses & references.analysed)):
            return "analysis", f"an analysis looks at {_abbreviate(found)}"
        if self.orphan:
            return "", "orphan: no sweep names this run"
        if self.status not in FINISHED:
            return "resume", f"the run is {self.status or 'unfinished'}: the same command goes on from here"
        missing = self.unscored() if self.status == "done" else ""
        if not of_weights:
            if missing and not (self.path / "weights" / "last.json").exists():
                return "only-weights", RULES["only-weights"]
            return "", f"the run is {self.status}: nothing goes on from it"
        if missing:
            return "decode", f"{missing} has no score yet"
        named = self.sweeps.rows.get(self.key)
        if not weights:
            rule = "unreadable" if self.sweeps.unreadable and not named else "weights"
            return rule, RULES[rule]
        return (
            ("", "finished and scored; translate, analyse and export will need it trained again") if named else ("decode", RULES["decode"])
        )


def find(results: Path, *, weights: bool = False, references: RunReferences | None = None) -> Garbage:
    """Finds everything in `results` that can be deleted. Takes no lock."""
    sweeps, garbage = read_sweeps(results), Garbage()
    for name in sweeps.unreadable:
        garbage.notes.append(f"sweeps/{name} cannot be read: no run counts as an orphan until it can, or is removed")
    for run in sorted(results.iterdir()):
        if RUN.fullmatch(run.name) and run.is_dir():
            inspect_run(run, sweeps, garbage, weights=weights, references=references or RunReferences())
    _add_sweep_leftovers(results, sweeps, garbage)
    ray = results / "ray"
    if not sweeps.live and ray.is_dir() and not ray.is_symlink():
        folders = [path for path in ray.iterdir() if path.is_dir() and not path.is_symlink()]
        for path in sorted(folders, key=lambda path: -path.stat().st_mtime):  # the newest first: new ones are numbered by those that exist
            garbage.add(path, "ray", "Ray's own state of a sweep that is over: never read again")
    for path in leftovers(results):
        garbage.add(path, "leftover", "left by a command that was killed")
    return garbage


def inspect_run(run: Path, sweeps: Sweeps, garbage: Garbage, *, weights: bool, references: RunReferences, held: bool = False) -> None:
    """Adds the items of one run to `garbage`. held: the caller holds the lock of the run."""
    if run.is_symlink():
        garbage.add(run, "link", rule="link")
        return
    recorded = _recorded_row(run)
    ledger = Ledger(run.parent, on_bad=lambda path, reason: None)
    known = next((key for key in (*sweeps.rows, *sweeps.children) if key.startswith(run.name)), "")
    key = ledger.reader.key(run) or known or recorded.get("key", "")
    named = sweeps.rows.get(key, [])
    row = named[0].name if named else recorded.get("name", "")
    holder = None if held else owner(run / "lock")
    occupant = sweeps.driver(key) or (f"process {holder.get('pid')} on {holder.get('host')}" if holder else None)
    if occupant is not None:
        garbage.add(run, "run", f"{occupant} is at work on it", row=row, rule="running")
        return
    for path in _temporary_files(run):
        garbage.add(path, "temporary", KILLED, run.name, row)
    if not held:
        _add_stale_lock(run / "lock", garbage, run.name, row)
    status = RunView.read(ledger, {"": Keys(key, None, None)}).trained if key else None
    about = _Run(run, key, row, {recorded.get("id", "")} | {one.id for one in named}, status, sweeps)
    for name, kind in (("ckpt", "checkpoints"), ("weights", "weights"), ("snapshots", "snapshots")):
        if (run / name).is_symlink():
            garbage.add(run / name, "link", row=row, rule="link")
        elif (run / name).is_dir() and any((run / name).iterdir()):
            rule, why = about.rule(kind, references, weights)
            garbage.add(run / name, kind, why, run.name, row, rule)


def _temporary_files(folder: Path) -> Iterator[Path]:
    """Files left in a run folder by killed writers: temporary files of `atomic`, and incomplete or damaged checkpoints."""
    for place in (folder, *(folder / name for name in ("rungs", "decode", "score", "tune", "weights", "snapshots", "ckpt"))):
        if place.is_dir() and not place.is_symlink():
            yield from sorted([*place.glob(".*.tmp"), *place.glob("bad-step-*")])


def leftovers(results: Path) -> list[Path]:
    """Folders left by killed `gc`, `results import` and `repro` commands; those of imports only while no other process holds LOCK."""
    paths = [path for path in sorted(results.iterdir()) if LEFTOVER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    trash = results / TRASH
    paths += sorted(trash.iterdir()) if trash.is_dir() and not trash.is_symlink() else []
    busy = owner(results / LOCK) is not None
    return [path for path in paths if owner(path / "lock") is None and not (busy and path.name.startswith(".import-"))]


def _add_sweep_leftovers(results: Path, sweeps: Sweeps, garbage: Garbage) -> None:
    folder = results / "sweeps"
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in sorted(folder.glob(".*.tmp")):
        if sweep_name(path.name) not in sweeps.live:
            garbage.add(path, "temporary", KILLED)
    for path in sorted(folder.glob("*.stop")):
        if path.stem not in sweeps.live:
            garbage.add(path, "lock", "asks a sweep to end that does not run")
    for path in sorted(folder.glob("*.lock")):
        _add_stale_lock(path, garbage)


def _add_stale_lock(path: Path, garbage: Garbage, run: str = "", row: str = "") -> None:
    """Files of a lock whose owner is dead, judged by the pid, start time and boot id in its record."""
    if owner(path) is not None or path.is_symlink():
        return
    if record_of(path).get("held"):
        for file in (path.with_name(f"{path.name}.json"), path):
            if file.exists():
                garbage.add(file, "lock", f"its owner, process {record_of(path).get('pid')}, is dead", run, row)
    for file in sorted(path.parent.glob(f"{path.name}.asked-*")):
        garbage.add(file, "lock", "remembers that a process was asked to end, which is over", run, row)


def _recorded_row(run: Path) -> dict[str, str]:
    """id, seed, name and key of the row in spec.yaml. The file is read by regular expressions because it may be damaged."""
    try:
        text = (run / "spec.yaml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    fields = dict(re.findall(r"^(key(?=: [0-9a-f]{64}$)|id|seed): (\S+)$", text, re.MULTILINE))
    return fields | {"name": f"{fields['id']} seed {fields.get('seed', '?')}"} if "id" in fields else fields


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files under a folder. Symbolic links count as 0."""
    if path.is_symlink() or not path.exists():
        return 0
    if path.is_dir():
        return sum(size_of(child) for child in path.iterdir()) + object_store.absent_bytes(path)
    return path.stat().st_size


def _abbreviate(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
