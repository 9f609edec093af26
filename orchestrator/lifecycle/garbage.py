"""Deletes what a results folder no longer needs, or lists it; and the rules (RULES) that protect the rest.

Deletable: checkpoints of finished runs; tensors of orphans (runs that no sweep file names, provided every sweep file can be read);
temporary files of killed writers; Ray's own state, which is never read again; with `weights`, also the weights
and snapshots of finished runs that no rule protects. Records, texts and specs are never deleted. Safe if killed at any moment: a folder
is deleted under the lock of its run or sweep, and is whole or gone.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import FencedError, LockedError, UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.files.listed import mapped
from orchestrator.ledger import object_store
from orchestrator.ledger.packed import RUN
from orchestrator.ledger.records import FOLDERS
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock, owner
from orchestrator.ledger.run_view import FINISHED, RunView
from orchestrator.ledger.sweep_files import SweepFile, SweepRow, Sweeps, read_sweeps, sweep_name

LOCK = ".lifecycle.lock"
"""Held by `gc --delete` and `results import`, which exclude each other."""
LEFTOVER = re.compile(r"\.(?:import|repro)-[0-9]+-[0-9a-z_]{8}")
KILLED = "left by a writer that was killed"
KINDS = {"ckpt": "checkpoints", "weights": "weights", "snapshots": "snapshots"}
"""Folder of tensors in a run -> kind of the item."""

RULES = mapped(__file__, "rules.txt")


@dataclass(frozen=True)
class Item:
    """One path that can be deleted, or, with a rule (a name in RULES), one that is protected.

    kind: checkpoints | weights | snapshots | temporary | ray | leftover | link | run. run: name of its folder, or ''.
    """

    path: Path
    kind: str
    why: str
    run: str = ""
    row: str = ""
    rule: str = ""

    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", size_of(self.path))

    def as_json(self) -> dict[str, Any]:
        found = asdict(self) | {"path": str(self.path), "bytes": self.size}
        return {name: value for name, value in found.items() if name != "size" and (name != "rule" or value)}


class Garbage(NamedTuple):
    """Deletable items, protected ones, and messages."""

    items: list[Item]
    kept: list[Item]
    notes: list[str]


def collect(results: Path, *, weights: bool = False, delete: bool = False) -> Garbage:
    """Everything in `results` that can be deleted; with `delete` it is. Without, takes no lock and changes nothing.

    Raises LockedError if another `gc --delete` or `results import` is working on this folder.
    """
    with temporary_lock(RunLock(results / LOCK)) if delete else contextlib.nullcontext():
        sweeps, found = read_sweeps(results), list[Item]()
        for run in sorted(results.iterdir()):
            if RUN.fullmatch(run.name) and run.is_dir():
                items = list(_inspect_run(run, sweeps, weights=weights))
                found += _collect_run(run, weights) if delete and any(not item.rule for item in items) else items
        others = [*_sweep_leftovers(results / "sweeps", sweeps), *_ray_folders(results, sweeps)]
        others += [Item(path, "leftover", "left by a command that was killed") for path in leftovers(results, held=delete)]
        found += [_delete_under_lock(results, item) for item in others] if delete else others
    notes = [f"sweeps/{name} cannot be read: no run counts as an orphan until it can, or is removed" for name in sweeps.unreadable]
    return Garbage([item for item in found if not item.rule], [item for item in found if item.rule], notes)


def _collect_run(run: Path, weights: bool) -> list[Item]:
    """Inspects a run again under its lock and deletes its items."""
    try:
        with temporary_lock(RunLock(run / "lock")) as lock:
            found = list(_inspect_run(run, read_sweeps(run.parent), weights=weights, held=True))
            for item in found:
                lock.check()
                if not item.rule:
                    _delete(item)
    except (LockedError, FencedError) as error:
        return [Item(run, "run", str(error), rule="running")]
    return found


def _delete_under_lock(results: Path, item: Item) -> Item:
    """Deletes what is of no run. Returns the item, with a rule if a process has come that needs it."""
    path = item.path
    lock: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if path.parent == results / "sweeps":
        lock = temporary_lock(RunLock(SweepFile.of(results, sweep_name(path.name)).lock))
    elif (path / "lock").exists():
        lock = RunLock(path / "lock")
    try:
        with lock:
            if item.kind == "ray" and (live := read_sweeps(results).live):
                raise LockedError(f"{next(iter(live))} runs")
            _delete(item)
    except LockedError as error:
        return Item(path, item.kind, str(error), rule="running")
    return item


def _delete(item: Item) -> None:
    """Deletes a file or folder. A folder is renamed first, so it is complete or gone. The next call finds leftovers of a killed one."""
    path = item.path
    fault("gc_pre_rename")
    if path.is_dir() and item.kind != "leftover":
        path = path.rename(atomic.temporary(path))
        atomic.fsync_dir(path.parent)
        fault("gc_post_rename")
    atomic.remove(path)


@contextmanager
def temporary_lock(lock: RunLock) -> Iterator[RunLock]:
    """Holds `lock` and removes its files before releasing it; a waiting process creates new ones."""
    with lock.acquire():
        try:
            yield lock
        finally:
            with contextlib.suppress(FencedError):
                lock.check()
                for path in (lock.record_path, lock.path):
                    path.unlink(missing_ok=True)


@contextmanager
def temporary_folder(parent: Path, command: str) -> Iterator[Path]:
    """Yields a new folder in `parent`, which is deleted at the end. If the process is killed, `leftovers` finds it."""
    with tempfile.TemporaryDirectory(prefix=f".{command}-{os.getpid()}-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _inspect_run(run: Path, sweeps: Sweeps, *, weights: bool, held: bool = False) -> Iterator[Item]:
    """Yields the items of one run. held: the caller holds the lock of the run."""
    if run.is_symlink():
        yield Item(run, "link", RULES["link"], rule="link")
        return
    ledger = Ledger(run.parent, on_bad=lambda path, reason: None)
    key = ledger.reader.key(run) or next((key for key in (*sweeps.rows, *sweeps.children) if key.startswith(run.name)), "")
    named = sweeps.rows.get(key, [])
    written = {} if named else ledger.reader.spec(run) or {}
    row = named[0].name if named else f"{written['id']} seed {written.get('seed', '?')}" if "id" in written else ""
    holder = sweeps.driver(key) or (None if held else owner(run / "lock"))
    if holder is not None:
        yield Item(run, "run", f"process {holder.get('pid')} on {holder.get('host')} is at work on it", row=row, rule="running")
        return
    for folder in (run, *(run / name for name in (*FOLDERS, *KINDS))):
        left = [] if folder.is_symlink() else sorted([*folder.glob(".*.tmp"), *folder.glob("bad-step-*")])
        yield from (Item(path, "temporary", KILLED, run.name, row) for path in left)
    orphan = bool(sweeps.names) and not sweeps.unreadable and key not in sweeps.rows and key not in sweeps.children
    status = (ledger.read_train(key) or {}).get("status") if key else None

    def fate(kind: str) -> tuple[str, str]:
        """(Rule that protects the tensors or '', reason or '' for the rule's own)."""
        if kind != "checkpoints" and (children := [child.name for child in sweeps.children.get(key, [])]):
            return "init_from", f"{', '.join(children[:2])}{f' and {len(children) - 2} more' if len(children) > 2 else ''} starts from them"
        if orphan:
            return "", "orphan: no sweep names this run"
        if status not in FINISHED:
            return "resume", f"the run is {status or 'unfinished'}: the same command goes on from here"
        missing = _unscored(ledger, named) if status == "done" else ""
        if kind == "checkpoints":
            needed = missing and not (run / "weights" / "last.json").exists()
            return ("only-weights", "") if needed else ("", f"the run is {status}: nothing goes on from it")
        if missing:
            return "decode", f"{missing} has no score yet"
        if not weights:
            return ("unreadable" if sweeps.unreadable and not named else "weights"), ""
        return ("", "finished and scored; translate, analyse and export will need it trained again") if named else ("decode", "")

    for folder, kind in ((run / name, kind) for name, kind in KINDS.items()):
        if folder.is_symlink():
            yield Item(folder, "link", RULES["link"], row=row, rule="link")
        elif folder.is_dir() and any(folder.iterdir()):
            rule, why = fate(kind)
            yield Item(folder, kind, why or RULES[rule], run.name, row, rule)


def _unscored(ledger: Ledger, rows: list[SweepRow]) -> str:
    """Name of the first row that lacks a score, or whose score is of another key; '' if there is none. Trials have no scores."""
    for row in (one for one in rows if one.keys.score is not None):
        try:
            scores = RunView.read(ledger, row.scorings).scores
        except UserError:
            return row.name
        if None in scores.values():
            return row.name
    return ""


def leftovers(results: Path, *, held: bool = False) -> list[Path]:
    """Folders left by killed `results import` and `repro` commands; those of imports only while no other process holds LOCK."""
    paths = [path for path in sorted(results.iterdir()) if LEFTOVER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    busy = not held and owner(results / LOCK) is not None
    return [path for path in paths if owner(path / "lock") is None and not (busy and path.name.startswith(".import-"))]


def _sweep_leftovers(folder: Path, sweeps: Sweeps) -> Iterator[Item]:
    for path in sorted([*folder.glob(".*.tmp"), *folder.glob("*.stop")]):
        if sweep_name(path.name) not in sweeps.live:
            yield Item(path, "temporary", "asks a sweep to end that does not run" if path.suffix == ".stop" else KILLED)


def _ray_folders(results: Path, sweeps: Sweeps) -> list[Item]:
    ray = results / "ray"
    if sweeps.live or not ray.is_dir() or ray.is_symlink():
        return []
    folders = [path for path in ray.iterdir() if path.is_dir() and not path.is_symlink()]
    newest_first = sorted(folders, key=lambda path: -path.stat().st_mtime)  # new ones are numbered by those that exist
    return [Item(path, "ray", "Ray's own state of a sweep that is over: never read again") for path in newest_first]


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files under a folder. Symbolic links count as 0."""
    if path.is_symlink() or not path.exists():
        return 0
    if path.is_dir():
        mirror = object_store.mirror_of(path)
        return sum(map(size_of, path.iterdir())) + (0 if mirror is None else mirror.absent_bytes(path))
    return path.stat().st_size
