"""Deletes the items that `garbage.find` found; safe if killed at any moment.

Each path is checked again and renamed into RESULTS/.trash under the lock of its run or sweep; the trash is emptied afterwards. A run is
locked only for a few renames. The trash of a killed call is emptied by the next one.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import FencedError, LockedError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import read_sweeps
from orchestrator.lifecycle import garbage
from orchestrator.lifecycle.garbage import LOCK, TRASH, Garbage, Item, KeptItem
from orchestrator.lifecycle.references import RunReferences


def collect(
    results: Path, plan: Garbage, *, weights: bool = False, references: RunReferences | None = None
) -> tuple[list[Item], list[KeptItem]]:
    """Deletes the items of `plan`. Returns (deleted items, items that a process acquired or changed meanwhile).

    Raises LockedError if another `gc --delete` or `results import` is working on this folder.
    """
    by_run: dict[str, list[Item]] = defaultdict(list)
    for item in plan.items:
        by_run[item.run].append(item)
    removed: list[Item] = []
    kept_items: list[KeptItem] = []
    with exclusive(results):
        for name, items in by_run.items():
            for item, reason in (
                _collect_run(results, name, items, weights, references or RunReferences()) if name else _collect_others(results, items)
            ):
                removed.append(item) if reason is None else kept_items.append(reason)
        empty_trash(results)
    return removed, kept_items


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


def move_to_trash(results: Path, path: Path) -> None:
    """Renames a path into the trash, whose space `empty_trash` frees."""
    trash = results / TRASH
    trash.mkdir(exist_ok=True)
    fault("gc_pre_rename")
    path.rename(trash / f"{secrets.token_hex(8)}-{path.name[-100:]}")
    atomic.fsync_dir(path.parent)
    fault("gc_post_rename")


def empty_trash(results: Path) -> None:
    """Deletes the trash folder and all that it contains."""
    trash = results / TRASH
    for path in sorted(trash.iterdir()) if trash.is_dir() else []:
        fault("gc_pre_delete")
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with contextlib.suppress(OSError):
        trash.rmdir()


Outcomes = Iterator[tuple[Item, KeptItem | None]]


def _collect_run(results: Path, name: str, items: list[Item], weights: bool, references: RunReferences) -> Outcomes:
    """Yields each item with None if it was deleted, else with the reason why not. The lock's own files go with the lock."""
    run = results / name
    lock = RunLock(run / "lock")
    try:
        with temporary_lock(lock):
            second = Garbage()
            garbage.inspect_run(run, read_sweeps(results), second, weights=weights, references=references, held=True)
            reasons = {kept.path: kept for kept in second.kept}
            for item in items:
                if item.kind == "lock" or item.path in {found.path for found in second.items}:
                    lock.check()
                    if item.path not in (lock.path, lock.record_path):
                        move_to_trash(results, item.path)
                    yield item, None
                else:
                    yield item, reasons.get(item.path) or reasons.get(run) or _busy(item, "it changed meanwhile")
    except (LockedError, FencedError) as error:
        for item in items:
            yield item, _busy(item, str(error))


def _collect_others(results: Path, items: list[Item]) -> Outcomes:
    """Deletes items outside runs: files of sweeps, of Ray, and of `gc`, import and `repro` themselves."""
    for item in items:
        path = item.path
        try:
            if path.parent == results / "sweeps":
                lock = RunLock(path.with_name(_sweep_name(path.name) + ".lock"))
                with temporary_lock(lock):
                    if path not in (lock.path, lock.record_path):
                        move_to_trash(results, path)
            elif item.kind == "ray":
                if live := read_sweeps(results).live:
                    yield item, _busy(item, f"{next(iter(live))} runs")
                    continue
                move_to_trash(results, path)
            elif (path / "lock").exists():
                with RunLock(path / "lock").acquire():
                    move_to_trash(results, path)
            elif path.parent != results / TRASH:
                move_to_trash(results, path)
            yield item, None
        except FileNotFoundError:
            yield item, None  # already deleted together with its lock
        except (LockedError, FencedError) as error:
            yield item, _busy(item, str(error))


def _sweep_name(name: str) -> str:
    """Name of the sweep that a file in RESULTS/sweeps belongs to."""
    name = re.sub(r"^\.(.+)\.[0-9]+-[0-9a-f]{8}\.tmp$", r"\1", name)
    return re.sub(r"(\.lock(\.json|\.asked-[0-9]+)?|\.asha\.json|\.json|\.stop)$", "", name)


def _busy(item: Item, why: str) -> KeptItem:
    return KeptItem(item.path, item.size, "running", why, item.row)
