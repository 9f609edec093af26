"""Results that `run --again` set aside. RESULTS/earlier/1 is a results folder of its own: `table --results RESULTS/earlier/1` reads it.

Setting aside is one rename of the run's folder under its lock: before it the old result is in place, after it beside, and the run is one
that has not begun. Nothing removes what is kept here. A read-only ledger's result is copied; it is not asked for this run any more.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import LockedError, UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger import mirrored, sources
from orchestrator.ledger.run_lock import RunLock, owner

if TYPE_CHECKING:
    from orchestrator.ledger.results import Ledger
    from orchestrator.sweeps.task import Task

FOLDER = "earlier"


def kept(root: Path, name: str) -> list[Path]:
    """Earlier results of the run whose folder is called `name`, oldest first."""
    folder = root / FOLDER
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []
    return [folder / str(number) / name for number in numbers if (folder / str(number) / name).is_dir()]


def mark(root: Path, key: str | None) -> list[int]:
    """To tell what was made of a run from what is made of it now: empty where nothing of it was set aside, else their number."""
    return [len(found)] if key is not None and (found := kept(root, key[:16])) else []


def begin_anew(tasks: Sequence[Task], wanted: set[str], ledger: Ledger) -> None:
    """Sets aside what is there of the tasks called `wanted`, and says where it is. An unfinished run of the present code stays: it goes on.

    Before anything is moved: LockedError where a process has one of the runs; UserError where one could not start, for the weights of its
    parent are not here, and where the results are a bucket, whose heads know one state of a run.
    """
    if (url := mirrored.url(ledger.root)) is not None:
        raise UserError(f"--again: {url} keeps one result of a run; expected --results with a folder")
    chosen = list({task.train_key: task for task in tasks if task.name in wanted}.values())
    keys = {task.train_key for task in chosen}
    for task in chosen:
        if (who := owner(task.run_dir / "lock")) is not None:
            raise LockedError(f"{task.run_dir}: locked by process {who.get('pid')} on {who.get('host')}; nothing was set aside")
        parent = Path(task.results) / (task.parent_key or "")[:16]
        has_result = task.parent_key is not None and ledger.read_train(task.parent_key) is not None
        if has_result and task.parent_key not in keys and not (parent / "weights" / "last.json").exists():
            names = [other.id for other in tasks if other.train_key == task.parent_key]
            raise UserError(f"{task.name}: the weights of {', '.join(names)}, which it starts from, are not here; train that --again first")
    for task in chosen:
        if (place := _set_aside(task, ledger)) is not None:
            line = f"{task.name}: what was here is kept in {place}; after an interruption the same command goes on without --again"
            print(line, file=sys.stderr, flush=True)


def _set_aside(task: Task, ledger: Ledger) -> Path | None:
    record, root, name = ledger.read_train(task.train_key), ledger.root, task.run_dir.name
    if record is None and not _is_other_code(task):
        return None
    target = set_aside(root, name) if task.run_dir.is_dir() else _next(root, name)
    if record is not None and not (target / "train.json").exists():  # a mirror's
        for mirror in ledger.mirrors:
            published = type(ledger)(mirror)
            if published.read_train(task.train_key) is not None:
                published.export(task.train_key, target.parent)
                break
    return target


def set_aside(root: Path, name: str) -> Path:
    """Moves the run's folder -> where it is now. LockedError where a process has the run."""
    run = root / name
    with RunLock(run / "lock") as lock:
        target = _next(root, name)
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


def make_room(ledger: Ledger, key: str, record: Mapping[str, Any] | None) -> None:
    """Sets aside another training of the run, whose translations and scores do not mix with those of `record`."""
    mine, theirs = (record or {}).get("weights_sha256"), (ledger.read_train(key) or {}).get("weights_sha256")
    if None not in (mine, theirs) and mine != theirs:
        set_aside(ledger.root, key[:16])


def _next(root: Path, name: str) -> Path:
    known = kept(root, name)
    return root / FOLDER / str(int(known[-1].parent.name) + 1 if known else 1) / name


def _is_other_code(task: Task) -> bool:
    """Is there a checkpoint to go on from that this very code did not make?"""
    steps = sorted(path for path in (task.run_dir / "ckpt").glob("step-*") if re.fullmatch(r"step-\d+", path.name))
    if not steps:
        return False
    try:
        state: Any = json.loads((steps[-1] / "state.json").read_bytes())
        return bool(state["progress"]["origin"]["sources"] != sources.of_model(task.run_spec.model))
    except (OSError, ValueError, KeyError, TypeError):
        return True
