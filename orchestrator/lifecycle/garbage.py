"""What of a results folder may go, and which rule keeps the rest. Looks, and changes nothing.

Goes: full checkpoints of runs that nothing continues from; tensors of orphans (runs that no sweep file names any more, where every sweep
file can be read); what killed writers left; locks of dead processes; Ray's own state, which is never read again; with `weights`, also the
weights and snapshots of finished runs that no rule below protects.

Stays, whatever is asked for (RULES): the ledger's JSON, spec.yaml, history and hypotheses; all of a run that a live process holds or whose
sweep is driven; checkpoints that an unfinished, failed or stopped run goes on from; weights that another row starts from, that a
decoding or an analysis needs; whatever is a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.files.documents import key_in, read_document
from orchestrator.ledger import mirrored
from orchestrator.ledger.outcome import FINISHED
from orchestrator.ledger.run_lock import owner, record_of
from orchestrator.ledger.sweep_files import BESIDE, Sweeps, read_sweeps

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
    """One path that may go. kind: checkpoints | weights | snapshots | temporary | lock | ray | leftover. run: its folder's name, or ''."""

    path: Path
    kind: str
    size: int
    why: str
    run: str = ""
    row: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"path": str(self.path), "kind": self.kind, "bytes": self.size, "why": self.why, "run": self.run, "row": self.row}


@dataclass(frozen=True)
class Kept:
    """Tensors that stay, and the rule (a name of RULES) that keeps them."""

    path: Path
    size: int
    rule: str
    why: str
    row: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"path": str(self.path), "bytes": self.size, "rule": self.rule, "why": self.why, "row": self.row}


@dataclass
class Garbage:
    items: list[Item] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)


@dataclass(frozen=True)
class Needs:
    """Addresses of rows in the tables that are known here: others start from them, analyses look at them."""

    parents: frozenset[str] = frozenset()
    analysed: frozenset[str] = frozenset()


def find(results: Path, *, weights: bool = False, needs: Needs | None = None) -> Garbage:
    """Everything in `results` that may go. Takes no lock."""
    sweeps, found = read_sweeps(results), Garbage()
    for name in sweeps.unreadable:
        found.notes.append(f"sweeps/{name} cannot be read: no run counts as an orphan until it can, or is removed")
    for run in runs_in(results):
        look_at_run(run, sweeps, found, weights=weights, needs=needs or Needs())
    found.items += _sweep_leftovers(results, sweeps)
    found.items += _ray(results, sweeps)
    found.items += leftovers(results)
    return found


def runs_in(results: Path) -> list[Path]:
    return [path for path in sorted(results.iterdir()) if RUN.fullmatch(path.name) and path.is_dir()]


def look_at_run(run: Path, sweeps: Sweeps, found: Garbage, *, weights: bool, needs: Needs, held: bool = False) -> None:
    """One run's part of `find`. held: the caller has the run's lock, which is then nobody else's."""
    if run.is_symlink():
        found.kept.append(Kept(run, 0, "link", RULES["link"]))
        return
    key = _key_of(run, sweeps)
    named = sweeps.rows.get(key or "", [])
    row = named[0].name if named else _recorded(run).get("name", "")
    who = None if held else owner(run / "lock")
    busy = (sweeps.driver(key) if key else None) or (f"process {who.get('pid')} on {who.get('host')}" if who else None)
    if busy is not None:
        found.kept.append(Kept(run, size_of(run), "running", f"{busy} is at work on it", row))
        return
    orphan = bool(sweeps.names) and not sweeps.unreadable and not named and key not in sweeps.children
    for path in temporary(run):
        found.items.append(Item(path, "temporary", size_of(path), "left by a writer that was killed", run.name, row))
    found.items += [] if held else _stale_lock(run / "lock", run.name, row)
    status = (read_document(run / "train.json") or {}).get("status")
    for name in ("ckpt", "weights", "snapshots"):
        path = run / name
        if path.is_symlink():
            found.kept.append(Kept(path, 0, "link", RULES["link"], row))
        elif path.is_dir() and any(path.iterdir()):
            kind = "checkpoints" if name == "ckpt" else name
            rule, why = (_checkpoint_rule if name == "ckpt" else _weights_rule)(run, key, status, orphan, sweeps, needs, weights)
            if rule is None:
                found.items.append(Item(path, kind, size_of(path), why, run.name, row))
            else:
                found.kept.append(Kept(path, size_of(path), rule, why, row))


def _checkpoint_rule(
    run: Path, key: str | None, status: str | None, orphan: bool, sweeps: Sweeps, needs: Needs, weights: bool
) -> tuple[str | None, str]:
    """(rule that keeps it, or None; why)."""
    if orphan:
        return None, "orphan: no sweep names this run"
    if status not in FINISHED:
        return "resume", f"the run is {status or 'unfinished'}: the same command goes on from here"
    if status == "done" and not (run / "weights" / "last.json").exists() and _unscored(run, key, sweeps):
        return "only-weights", RULES["only-weights"]
    return None, f"the run is {status}: nothing goes on from it"


def _weights_rule(
    run: Path, key: str | None, status: str | None, orphan: bool, sweeps: Sweeps, needs: Needs, weights: bool
) -> tuple[str | None, str]:
    address = _recorded(run).get("id", "")
    addresses = {address} | {named.id for named in sweeps.rows.get(key or "", [])}
    children = [named.name for named in sweeps.children.get(key or "", [])]
    if children or addresses & needs.parents:
        return "init_from", f"{_few(children)} starts from them" if children else RULES["init_from"]
    if addresses & needs.analysed:
        return "analysis", f"an analysis looks at {_few(sorted(addresses & needs.analysed))}"
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
    """Name of a row of this run that lacks a score; '' where every one is there."""
    for named in sweeps.rows.get(key or "", []):
        others = [other.get("keys") or {} for other in (named.row.get("also") or {}).values()]
        for keys in (named.row["keys"], *others):
            score = keys.get("score")
            if not isinstance(score, str) or key_in(read_document(run / "score" / f"{score[:16]}.json"), score[:16]) is None:
                return named.name
    return ""


def temporary(folder: Path) -> list[Path]:
    """What killed writers left in a run folder: files of `atomic`, generations of `checkpoint` that were never whole or are no more."""
    places = [folder, *(folder / name for name in ("rungs", "decode", "score", "tune", "weights", "snapshots", "ckpt"))]
    found = [path for place in places if place.is_dir() and not place.is_symlink() for path in sorted(place.glob(".*.tmp"))]
    ckpt = folder / "ckpt"
    if ckpt.is_dir() and not ckpt.is_symlink():
        found += [path for path in sorted(ckpt.iterdir()) if ".tmp-" in path.name or path.name.startswith("bad-step-")]
    return found


def leftovers(results: Path) -> list[Item]:
    """Of these very commands, killed: only for the holder of LOCK is this surely nobody's, but for a `repro` that is under way."""
    paths = [path for path in sorted(results.iterdir()) if LEFTOVER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    trash = results / TRASH
    paths += sorted(trash.iterdir()) if trash.is_dir() and not trash.is_symlink() else []
    busy = owner(results / LOCK) is not None
    return [
        Item(path, "leftover", size_of(path), "left by a command that was killed")
        for path in paths
        if owner(path / "lock") is None and not (busy and path.name.startswith(".import-"))
    ]


def _sweep_leftovers(results: Path, sweeps: Sweeps) -> list[Item]:
    folder = results / "sweeps"
    if not folder.is_dir() or folder.is_symlink():
        return []
    found: list[Item] = []
    for path in sorted(folder.glob(".*.tmp")):
        name = re.sub(r"\.[0-9]+-[0-9a-f]{8}\.tmp$", "", path.name[1:])
        name = next((name.removesuffix(end) for end in (*BESIDE, ".json") if name.endswith(end)), name)
        if name not in sweeps.live:
            found.append(Item(path, "temporary", size_of(path), "left by a writer that was killed"))
    for path in sorted(folder.glob("*.stop")):
        if path.stem not in sweeps.live:
            found.append(Item(path, "lock", size_of(path), "asks a sweep to end that does not run"))
    for path in sorted(folder.glob("*.lock")):
        found += _stale_lock(path, "", "")
    return found


def _stale_lock(path: Path, run: str, row: str) -> Iterator[Item]:
    """The files of a lock whose owner is dead, by its record: pid, start time and boot of this machine."""
    if owner(path) is not None or path.is_symlink():
        return
    if record_of(path).get("held"):
        for file in (path.with_name(f"{path.name}.json"), path):
            if file.exists():
                yield Item(file, "lock", size_of(file), f"its owner, process {record_of(path).get('pid')}, is dead", run, row)
    for file in sorted(path.parent.glob(f"{path.name}.asked-*")):
        yield Item(file, "lock", size_of(file), "remembers that a process was asked to end, which is over", run, row)


def _ray(results: Path, sweeps: Sweeps) -> list[Item]:
    """Newest experiment first: Ray's names count what is there, so that those left keep theirs unique (`engines.ray.tune`)."""
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
    return next((key for key in (*sweeps.rows, *sweeps.children) if key.startswith(run.name)), _recorded(run).get("key"))


def _recorded(run: Path) -> dict[str, str]:
    """id, name and key of the row that spec.yaml tells of; read line by line, for it may be damaged."""
    try:
        text = (run / "spec.yaml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found = {match[1]: match[2] for match in re.finditer(r"^(key|id|seed): (\S+)$", text, re.MULTILINE)}
    if not re.fullmatch(r"[0-9a-f]{64}", found.get("key", "")):
        found.pop("key", None)
    return found | {"name": f"{found['id']} seed {found.get('seed', '?')}"} if "id" in found else found


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files under a folder; links count nothing and are not followed."""
    if path.is_symlink() or not path.exists():
        return 0
    if path.is_dir():
        return sum(size_of(child) for child in path.iterdir()) + mirrored.absent_bytes(path)
    return path.stat().st_size


def _few(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
