"""Remove what `garbage.find` names, so that a kill at any moment leaves nothing half there.

Each path is first renamed into RESULTS/.trash, under the lock of the run or sweep that it belongs to and after a second look; only then
is the trash emptied. A run is therefore locked for the time of a few renames, and what a killed call left in the trash the next one takes.
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
from orchestrator.lifecycle.garbage import LOCK, TRASH, Garbage, Item, Kept, Needs


def collect(results: Path, plan: Garbage, *, weights: bool = False, needs: Needs | None = None) -> tuple[list[Item], list[Kept]]:
    """Remove the items of `plan` -> (what is gone, what stayed after all, because a process took it meanwhile).

    LockedError where another `gc --delete` or `results import` works on this folder.
    """
    by_run: dict[str, list[Item]] = defaultdict(list)
    for item in plan.items:
        by_run[item.run].append(item)
    gone: list[Item] = []
    stayed: list[Kept] = []
    with alone(results):
        for name, items in by_run.items():
            for item, reason in _of_run(results, name, items, weights, needs or Needs()) if name else _others(results, items):
                gone.append(item) if reason is None else stayed.append(reason)
        empty_trash(results)
    return gone, stayed


@contextmanager
def alone(results: Path) -> Iterator[None]:
    """Within: no other `gc --delete` or import works on this folder. LockedError where one does."""
    with removed_after(RunLock(results / LOCK)):
        yield


@contextmanager
def removed_after(lock: RunLock) -> Iterator[RunLock]:
    """Within, `lock` is held; afterwards its files are gone. They are removed while it is held: whoever waits makes new ones."""
    with lock.acquire():
        try:
            yield lock
        finally:
            with contextlib.suppress(FencedError):
                lock.check()
                for path in (lock.record_path, lock.path):
                    path.unlink(missing_ok=True)


def discard(results: Path, path: Path) -> None:
    """Out of sight at once, by a rename within one file system; `empty_trash` frees the space."""
    trash = results / TRASH
    trash.mkdir(exist_ok=True)
    fault("gc_pre_rename")
    path.rename(trash / f"{secrets.token_hex(8)}-{path.name[-100:]}")
    atomic.fsync_dir(path.parent)
    fault("gc_post_rename")


def empty_trash(results: Path) -> None:
    trash = results / TRASH
    for path in sorted(trash.iterdir()) if trash.is_dir() else []:
        fault("gc_pre_delete")
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with contextlib.suppress(OSError):
        trash.rmdir()


Verdicts = Iterator[tuple[Item, Kept | None]]


def _of_run(results: Path, name: str, items: list[Item], weights: bool, needs: Needs) -> Verdicts:
    """Each item with why it stays, or None: it is gone. The lock's own files go with the lock."""
    run = results / name
    lock = RunLock(run / "lock")
    try:
        with removed_after(lock):
            again = Garbage()
            garbage.look_at_run(run, read_sweeps(results), again, weights=weights, needs=needs, held=True)
            reasons = {kept.path: kept for kept in again.kept}
            for item in items:
                if item.kind == "lock" or item.path in {found.path for found in again.items}:
                    lock.check()
                    if item.path not in (lock.path, lock.record_path):
                        discard(results, item.path)
                    yield item, None
                else:
                    yield item, reasons.get(item.path) or reasons.get(run) or _busy(item, "it changed meanwhile")
    except (LockedError, FencedError) as error:
        for item in items:
            yield item, _busy(item, str(error))


def _others(results: Path, items: list[Item]) -> Verdicts:
    """What belongs to no run: of sweeps, of Ray, of these commands."""
    for item in items:
        path = item.path
        try:
            if path.parent == results / "sweeps":
                lock = RunLock(path.with_name(_sweep_of(path.name) + ".lock"))
                with removed_after(lock):
                    if path not in (lock.path, lock.record_path):
                        discard(results, path)
            elif item.kind == "ray":
                if live := read_sweeps(results).live:
                    yield item, _busy(item, f"{next(iter(live))} runs")
                    continue
                discard(results, path)
            elif (path / "lock").exists():
                with RunLock(path / "lock").acquire():
                    discard(results, path)
            elif path.parent != results / TRASH:
                discard(results, path)
            yield item, None
        except FileNotFoundError:
            yield item, None  # gone already, with its lock
        except (LockedError, FencedError) as error:
            yield item, _busy(item, str(error))


def _sweep_of(name: str) -> str:
    """Name of the sweep that a file in RESULTS/sweeps is of."""
    name = re.sub(r"^\.(.+)\.[0-9]+-[0-9a-f]{8}\.tmp$", r"\1", name)
    return re.sub(r"(\.lock(\.json|\.asked-[0-9]+)?|\.asha\.json|\.json|\.stop)$", "", name)


def _busy(item: Item, why: str) -> Kept:
    return Kept(item.path, item.size, "running", why, item.row)
