"""Superseded results, which `run --again` moves to RESULTS/earlier/N; `table --results RESULTS/earlier/1` reads such a folder.

One rename of the run's folder under its lock sets a result aside, so that it is always either in place or set aside; afterwards the run
is new. Nothing is ever removed. A result of a read-only ledger is copied, and that ledger is no longer read for the run.
"""

from pathlib import Path

from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger.packed import refuse_packed
from orchestrator.ledger.run_lock import RunLock

FOLDER = "earlier"


def folders(root: Path, name: str) -> list[Path]:
    """Superseded folders of the run with folder `name`, oldest first."""
    folder = root / FOLDER
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []
    return [folder / str(number) / name for number in numbers if (folder / str(number) / name).is_dir()]


def generation(root: Path, key: str | None) -> list[int]:
    """[Number of superseded results of the run], or [] if none: distinguishes what was derived from an older result."""
    return [len(found)] if key is not None and (found := folders(root, key[:16])) else []


def set_aside(root: Path, name: str) -> Path:
    """Moves the run's folder and returns its new path. LockedError if a process owns the run."""
    run = root / name
    refuse_packed(run)
    with RunLock(run / "lock") as lock:
        target = next_folder(root, name)
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


def next_folder(root: Path, name: str) -> Path:
    """Path for the next superseded result of the run."""
    known = folders(root, name)
    return root / FOLDER / str(int(known[-1].parent.name) + 1 if known else 1) / name
