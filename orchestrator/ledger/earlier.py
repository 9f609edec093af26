"""Results that `run --again` set aside. RESULTS/earlier/1 is a results folder of its own: `table --results RESULTS/earlier/1` reads it.

Setting aside is one rename of the run's folder under its lock: before it the old result is in place, after it beside, and the run is one
that has not begun. Nothing removes what is kept here. A read-only ledger's result is copied; it is not asked for this run any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger.run_lock import RunLock

FOLDER = "earlier"


def kept(root: Path, name: str) -> list[Path]:
    """Earlier results of the run whose folder is called `name`, oldest first."""
    folder = root / FOLDER
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []
    return [folder / str(number) / name for number in numbers if (folder / str(number) / name).is_dir()]


def mark(root: Path, key: str | None) -> list[int]:
    """To tell what was made of a run from what is made of it now: empty where nothing of it was set aside, else their number."""
    return [len(found)] if key is not None and (found := kept(root, key[:16])) else []


def set_aside(root: Path, name: str) -> Path:
    """Moves the run's folder -> where it is now. LockedError where a process has the run."""
    run = root / name
    with RunLock(run / "lock") as lock:
        target = next_place(root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        fault("again_pre_rename")
        lock.check()
        run.rename(target)
        for folder in (target.parent, root / FOLDER, root):
            atomic.fsync_dir(folder)
        fault("again_post_rename")
        for file in ("lock.json", "lock"):
            (target / file).unlink(missing_ok=True)
    return target


def make_room(root: Path, key: str, record: Mapping[str, Any] | None, there: Mapping[str, Any] | None) -> None:
    """Sets aside the training that is `there`, where it is another than `record`: their translations and scores do not mix."""
    mine, theirs = (record or {}).get("weights_sha256"), (there or {}).get("weights_sha256")
    if None not in (mine, theirs) and mine != theirs:
        set_aside(root, key[:16])


def next_place(root: Path, name: str) -> Path:
    """Where the next result of the run is kept."""
    known = kept(root, name)
    return root / FOLDER / str(int(known[-1].parent.name) + 1 if known else 1) / name
