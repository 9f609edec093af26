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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files.documents import key_in, read_document
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

RULES = {
    "running": "a live process holds the run, or drives a sweep that names it",
    "resume": "the run is not finished: the same command goes on from here",
    "only-weights": "its weights are not here: a missing translation would need this checkpoint",
    "init_from": "another row starts from these weights",
    "decode": "a translation or a score is still missing",
    "analysis": "an analysis looks at this row",
    "weights": "weights stay unless --weights is given",
    "unreadable": "a sweep file cannot be read, so that no run counts as an orphan",
    "link": "a link: what it leads to is not this folder's",
}


@dataclass(frozen=True)
class Item:
    """One deletable path. kind: checkpoints | weights | snapshots | temporary | lock | ray | leftover. run: name of its folder, or ''."""

    path: Path
    kind: str
    size: int
    why: str
    run: str = ""
    row: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"path": str(self.path), "kind": self.kind, "bytes": self.size, "why": self.why, "run": self.run, "row": self.row}


@dataclass(frozen=True)
class KeptItem:
    """Tensors that are not deletable, and the rule (a name in RULES) that protects them."""

    path: Path
    size: int
    rule: str
    why: str
    row: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"path": str(self.path), "bytes": self.size, "rule": self.rule, "why": self.why, "row": self.row}


@dataclass
class Garbage:
    """Result of `find`: deletable items, protected ones, and messages."""

    items: list[Item] = field(default_factory=list)
    kept: list[KeptItem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find(results: Path, *, weights: bool = False, references: RunReferences | None = None) -> Garbage:
    """Finds everything in `results` that can be deleted. Takes no lock."""
    sweeps, garbage = read_sweeps(results), Garbage()
    for name in sweeps.unreadable:
        garbage.notes.append(f"sweeps/{name} cannot be read: no run counts as an orphan until it can, or is removed")
    for run in runs_in(results):
        inspect_run(run, sweeps, garbage, weights=weights, references=references or RunReferences())
    garbage.items += _sweep_leftovers(results, sweeps)
    garbage.items += _ray(results, sweeps)
    garbage.items += leftovers(results)
    return garbage


def runs_in(results: Path) -> list[Path]:
    """Run folders of a results folder, sorted by name."""
    return [path for path in sorted(results.iterdir()) if RUN.fullmatch(path.name) and path.is_dir()]


def inspect_run(run: Path, sweeps: Sweeps, garbage: Garbage, *, weights: bool, references: RunReferences, held: bool = False) -> None:
    """Adds the items of one run to `garbage`. held: the caller holds the lock of the run."""
    if run.is_symlink():
        garbage.kept.append(KeptItem(run, 0, "link", RULES["link"]))
        return
    key = _key_of(run, sweeps)
    named = sweeps.rows.get(key or "", [])
    row = named[0].name if named else _recorded_row(run).get("name", "")
    holder = None if held else owner(run / "lock")
    occupant = (sweeps.driver(key) if key else None) or (f"process {holder.get('pid')} on {holder.get('host')}" if holder else None)
    if occupant is not None:
        garbage.kept.append(KeptItem(run, size_of(run), "running", f"{occupant} is at work on it", row))
        return
    orphan = bool(sweeps.names) and not sweeps.unreadable and not named and key not in sweeps.children
    for path in temporary_files(run):
        garbage.items.append(Item(path, "temporary", size_of(path), "left by a writer that was killed", run.name, row))
    garbage.items += [] if held else _stale_lock(run / "lock", run.name, row)
    status = None if key is None else RunView.read(Ledger(run.parent), {"": Keys(key, None, None)}).trained
    for name in ("ckpt", "weights", "snapshots"):
        path = run / name
        if path.is_symlink():
            garbage.kept.append(KeptItem(path, 0, "link", RULES["link"], row))
        elif path.is_dir() and any(path.iterdir()):
            kind = "checkpoints" if name == "ckpt" else name
            rule, why = (_checkpoint_rule if name == "ckpt" else _weights_rule)(run, key, status, orphan, sweeps, references, weights)
            if rule is None:
                garbage.items.append(Item(path, kind, size_of(path), why, run.name, row))
            else:
                garbage.kept.append(KeptItem(path, size_of(path), rule, why, row))


def _checkpoint_rule(
    run: Path, key: str | None, status: str | None, orphan: bool, sweeps: Sweeps, references: RunReferences, weights: bool
) -> tuple[str | None, str]:
    """Returns (rule that protects the checkpoints or None, reason)."""
    if orphan:
        return None, "orphan: no sweep names this run"
    if status not in FINISHED:
        return "resume", f"the run is {status or 'unfinished'}: the same command goes on from here"
    if status == "done" and not (run / "weights" / "last.json").exists() and _unscored(run, key, sweeps):
        return "only-weights", RULES["only-weights"]
    return None, f"the run is {status}: nothing goes on from it"


def _weights_rule(
    run: Path, key: str | None, status: str | None, orphan: bool, sweeps: Sweeps, references: RunReferences, weights: bool
) -> tuple[str | None, str]:
    """Returns (rule that protects the weights and snapshots or None, reason)."""
    address = _recorded_row(run).get("id", "")
    addresses = {address} | {named.id for named in sweeps.rows.get(key or "", [])}
    children = [named.name for named in sweeps.children.get(key or "", [])]
    if children or addresses & references.parents:
        return "init_from", f"{_abbreviate(children)} starts from them" if children else RULES["init_from"]
    if addresses & references.analysed:
        return "analysis", f"an analysis looks at {_abbreviate(sorted(addresses & references.analysed))}"
    if orphan:
        return None, "orphan: no sweep names this run"
    if status not in FINISHED:
        return "resume", f"the run is {status or 'unfinished'}: the same command goes on"
    if status == "done" and (missing := _unscored(run, key, sweeps)):
        return "decode", f"{missing} has no score yet"
    if not weights:
        rule = "unreadable" if sweeps.unreadable and not sweeps.rows.get(key or "") else "weights"
        return rule, RULES[rule]
    if not sweeps.rows.get(key or ""):
        return "decode", "no sweep file says which translations are wanted of it"
    return None, "finished and scored; translate, analyse and export will need it trained again"


def _unscored(run: Path, key: str | None, sweeps: Sweeps) -> str:
    """Name of the first row of this run that lacks a score, or whose score is the record of another key; '' if all are scored."""
    for named in sweeps.rows.get(key or "", []):
        try:
            scores = RunView.read(Ledger(run.parent), scorings_of(named.row)).scores
        except UserError:
            return named.name
        if None in scores.values():
            return named.name
    return ""


def temporary_files(folder: Path) -> list[Path]:
    """Files left in a run folder by killed writers: temporary files of `atomic`, and incomplete or damaged checkpoints."""
    folders = [folder, *(folder / name for name in ("rungs", "decode", "score", "tune", "weights", "snapshots", "ckpt"))]
    paths = [path for place in folders if place.is_dir() and not place.is_symlink() for path in sorted(place.glob(".*.tmp"))]
    ckpt = folder / "ckpt"
    if ckpt.is_dir() and not ckpt.is_symlink():
        paths += [path for path in sorted(ckpt.iterdir()) if ".tmp-" in path.name or path.name.startswith("bad-step-")]
    return paths


def leftovers(results: Path) -> list[Item]:
    """Folders left by killed `gc`, `results import` and `repro` commands; those of imports only while no other process holds LOCK."""
    paths = [path for path in sorted(results.iterdir()) if LEFTOVER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    trash = results / TRASH
    paths += sorted(trash.iterdir()) if trash.is_dir() and not trash.is_symlink() else []
    occupant = owner(results / LOCK) is not None
    return [
        Item(path, "leftover", size_of(path), "left by a command that was killed")
        for path in paths
        if owner(path / "lock") is None and not (occupant and path.name.startswith(".import-"))
    ]


def _sweep_leftovers(results: Path, sweeps: Sweeps) -> list[Item]:
    folder = results / "sweeps"
    if not folder.is_dir() or folder.is_symlink():
        return []
    items: list[Item] = []
    for path in sorted(folder.glob(".*.tmp")):
        if sweep_name(re.sub(r"\.[0-9]+-[0-9a-f]{8}\.tmp$", "", path.name[1:])) not in sweeps.live:
            items.append(Item(path, "temporary", size_of(path), "left by a writer that was killed"))
    for path in sorted(folder.glob("*.stop")):
        if path.stem not in sweeps.live:
            items.append(Item(path, "lock", size_of(path), "asks a sweep to end that does not run"))
    for path in sorted(folder.glob("*.lock")):
        items += _stale_lock(path, "", "")
    return items


def _stale_lock(path: Path, run: str, row: str) -> Iterator[Item]:
    """Files of a lock whose owner is dead, judged by the pid, start time and boot id in its record."""
    if owner(path) is not None or path.is_symlink():
        return
    if record_of(path).get("held"):
        for file in (path.with_name(f"{path.name}.json"), path):
            if file.exists():
                yield Item(file, "lock", size_of(file), f"its owner, process {record_of(path).get('pid')}, is dead", run, row)
    for file in sorted(path.parent.glob(f"{path.name}.asked-*")):
        yield Item(file, "lock", size_of(file), "remembers that a process was asked to end, which is over", run, row)


def _ray(results: Path, sweeps: Sweeps) -> list[Item]:
    """Ray's experiment folders, newest first, because `engines.ray.tune` numbers a new one by those that exist."""
    folder = results / "ray"
    if sweeps.live or not folder.is_dir() or folder.is_symlink():
        return []
    paths = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    order = sorted(paths, key=lambda path: (path.name == "train", -_number(path.name), path.name))
    return [Item(path, "ray", size_of(path), "Ray's own state of a sweep that is over: never read again") for path in order]


def _number(name: str) -> int:
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def _key_of(run: Path, sweeps: Sweeps) -> str | None:
    for name in ("train.json", "capsule.json"):
        if (key := key_in(read_document(run / name), run.name)) is not None:
            return key
    return next((key for key in (*sweeps.rows, *sweeps.children) if key.startswith(run.name)), _recorded_row(run).get("key"))


def _recorded_row(run: Path) -> dict[str, str]:
    """id, seed, name and key of the row in spec.yaml. The file is read by regular expressions because it may be damaged."""
    try:
        text = (run / "spec.yaml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    fields = {match[1]: match[2] for match in re.finditer(r"^(key|id|seed): (\S+)$", text, re.MULTILINE)}
    if not re.fullmatch(r"[0-9a-f]{64}", fields.get("key", "")):
        fields.pop("key", None)
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
