"""Deletes the items that `garbage.find` found; safe if killed at any moment.

Each path is checked again and deleted under the lock of its run or sweep.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from orchestrator.errors import FencedError, LockedError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import SweepFile, read_sweeps, sweep_name
from orchestrator.lifecycle.garbage import LOCK, Garbage, Item, inspect_run


def collect(results: Path, plan: Garbage, *, weights: bool = False) -> tuple[list[Item], list[Item]]:
    """Deletes the items of `plan`. Returns (deleted items, items that a process acquired or changed meanwhile).

    Raises LockedError if another `gc --delete` or `results import` is working on this folder.
    """
    groups: dict[Path, list[Item]] = defaultdict(list)
    for item in plan.items:
        groups[results / item.run if item.run else item.path].append(item)
    removed: list[Item] = []
    kept: list[Item] = []
    with exclusive(results):
        for path, group in groups.items():
            left = list(group)
            try:
                with _locked(results, path, group[0]) as lock:
                    again = inspect_run(path, read_sweeps(results), weights=weights, held=True) if group[0].run else ()
                    fresh = {item.path: item for item in again}
                    while left:
                        item = left[0]
                        if item.run and item.kind != "lock":
                            changed = replace(item, why="it changed meanwhile", rule="running")
                            item = fresh.get(item.path) or fresh.get(path) or changed
                        if lock is not None:
                            lock.check()
                        if not item.rule and (lock is None or item.path not in (lock.path, lock.record_path)):
                            _delete(item)
                        (kept if item.rule else removed).append(item)
                        left.pop(0)
            except FileNotFoundError:
                removed += left  # already deleted together with its lock
            except (LockedError, FencedError) as error:
                kept += [replace(item, why=str(error), rule="running") for item in left]
    return removed, kept


def _locked(results: Path, path: Path, item: Item) -> contextlib.AbstractContextManager[RunLock | None]:
    """The lock of a run, of a sweep, or of a command whose folder was left; None for other paths."""
    if item.run:
        return temporary_lock(RunLock(path / "lock"))
    if path.parent == results / "sweeps":
        return temporary_lock(RunLock(SweepFile.of(results, sweep_name(path.name)).lock))
    if item.kind == "ray" and (live := read_sweeps(results).live):
        raise LockedError(f"{next(iter(live))} runs")
    return RunLock(path / "lock") if (path / "lock").exists() else contextlib.nullcontext()


@contextmanager
def exclusive(results: Path) -> Iterator[None]:
    """Excludes every other `gc --delete` and import of this folder. Raises LockedError if one is running."""
    with temporary_lock(RunLock(results / LOCK)):
        yield


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


def _delete(item: Item) -> None:
    """Deletes a file or folder. A folder is renamed first, so that it is whole or gone; the next call finds what a killed one left."""
    path = item.path
    fault("gc_pre_rename")
    if path.is_dir() and item.kind != "leftover":
        path = path.rename(atomic.temporary(path))
        atomic.fsync_dir(path.parent)
        fault("gc_post_rename")
    atomic.remove(path)
