"""Deletes the items that `garbage.find` found; safe if killed at any moment.

Each path is checked again and renamed into RESULTS/.trash under the lock of its run or sweep; the trash is emptied afterwards. A run is
locked only for a few renames. The trash of a killed call is emptied by the next one.
"""

from __future__ import annotations

import contextlib
import secrets
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
from orchestrator.lifecycle import garbage
from orchestrator.lifecycle.garbage import LOCK, TRASH, Garbage, Item
from orchestrator.lifecycle.references import RunReferences


def collect(
    results: Path, plan: Garbage, *, weights: bool = False, references: RunReferences | None = None
) -> tuple[list[Item], list[Item]]:
    """Deletes the items of `plan`. Returns (deleted items, items that a process acquired or changed meanwhile).

    Raises LockedError if another `gc --delete` or `results import` is working on this folder.
    """
    by_run: dict[str, list[Item]] = defaultdict(list)
    for item in plan.items:
        by_run[item.run].append(item)
    removed: list[Item] = []
    kept: list[Item] = []
    with exclusive(results):
        for name, items in by_run.items():
            if name:
                _collect_run(results, name, items, weights, references or RunReferences(), removed, kept)
            else:
                for item in items:
                    _collect_other(results, item, removed, kept)
        empty_trash(results)
    return removed, kept


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


def empty_trash(results: Path) -> None:
    """Deletes the trash folder and all that it contains."""
    trash = results / TRASH
    for path in sorted(trash.iterdir()) if trash.is_dir() else []:
        fault("gc_pre_delete")
        atomic.remove(path)
    with contextlib.suppress(OSError):
        trash.rmdir()


def _move_to_trash(results: Path, path: Path) -> None:
    trash = results / TRASH
    trash.mkdir(exist_ok=True)
    fault("gc_pre_rename")
    path.rename(trash / f"{secrets.token_hex(8)}-{path.name[-100:]}")
    atomic.fsync_dir(path.parent)
    fault("gc_post_rename")


def _collect_run(
    results: Path, name: str, items: list[Item], weights: bool, references: RunReferences, removed: list[Item], kept: list[Item]
) -> None:
    """Deletes those items of a run that can still be deleted under its lock. The lock's own files go with the lock."""
    run, left = results / name, list(items)
    try:
        with temporary_lock(RunLock(run / "lock")) as lock:
            second = Garbage()
            garbage.inspect_run(run, read_sweeps(results), second, weights=weights, references=references, held=True)
            deletable, reasons = {item.path for item in second.items}, {item.path: item for item in second.kept}
            while left:
                item = left[0]
                if item.kind == "lock" or item.path in deletable:
                    lock.check()
                    if item.path not in (lock.path, lock.record_path):
                        _move_to_trash(results, item.path)
                    removed.append(item)
                else:
                    kept.append(reasons.get(item.path) or reasons.get(run) or _busy(item, "it changed meanwhile"))
                left.pop(0)
    except (LockedError, FencedError) as error:
        kept += [_busy(item, str(error)) for item in left]


def _collect_other(results: Path, item: Item, removed: list[Item], kept: list[Item]) -> None:
    """Deletes a path outside runs: a file of a sweep, of Ray, or of `gc`, import and `repro` themselves."""
    path = item.path
    try:
        if path.parent == results / "sweeps":
            with temporary_lock(RunLock(SweepFile.of(results, sweep_name(path.name)).lock)) as lock:
                if path not in (lock.path, lock.record_path):
                    _move_to_trash(results, path)
        elif item.kind == "ray" and (live := read_sweeps(results).live):
            raise LockedError(f"{next(iter(live))} runs")
        elif path.parent != results / TRASH:
            with RunLock(path / "lock").acquire() if (path / "lock").exists() else contextlib.nullcontext():
                _move_to_trash(results, path)
    except FileNotFoundError:
        pass  # already deleted together with its lock
    except (LockedError, FencedError) as error:
        kept.append(_busy(item, str(error)))
        return
    removed.append(item)


def _busy(item: Item, why: str) -> Item:
    return replace(item, why=why, rule="running")
