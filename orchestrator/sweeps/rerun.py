"""`run --again`: sets aside existing results of the runs that are trained again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.errors import LockedError, UserError
from orchestrator.ledger import component_sources, packing, superseded
from orchestrator.ledger.checkpoint import generations
from orchestrator.ledger.packed import refuse_packed
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import owner
from orchestrator.safe_text import log
from orchestrator.sweeps.task import Task


def set_aside_results(tasks: Sequence[Task], names: set[str], ledger: Ledger) -> None:
    """Sets aside the results of the tasks in `names` and logs their new path. Unfinished runs of the same code stay and resume.

    Checks before it moves anything: LockedError if a process owns one of the runs; UserError if the weights of a parent are missing.
    """
    chosen = list({task.train_key: task for task in tasks if task.name in names}.values())
    keys = {task.train_key for task in chosen}
    for task in chosen:
        refuse_packed(task.run_dir)
        if (holder := owner(task.run_dir / "lock")) is not None:
            raise LockedError(f"{task.run_dir}: locked by process {holder.get('pid')} on {holder.get('host')}; nothing was set aside")
        parent = Path(task.results) / (task.parent_key or "")[:16]
        has_result = task.parent_key is not None and ledger.read_train(task.parent_key) is not None
        if has_result and task.parent_key not in keys and not (parent / "weights" / "last.json").exists():
            parents = ", ".join(other.id for other in tasks if other.train_key == task.parent_key)
            raise UserError(f"{task.name}: the weights of {parents}, which it starts from, are not here; train that --again first")
    for task in chosen:
        record, name = ledger.read_train(task.train_key), task.run_dir.name
        if record is None and not _made_by_other_code(task):
            continue
        folder = superseded.set_aside(ledger.root, name) if task.run_dir.is_dir() else superseded.next_folder(ledger.root, name)
        if record is not None and not (folder / "train.json").exists():  # the record is in a mirror
            published = next(root for root in ledger.mirrors if Ledger(root).read_train(task.train_key) is not None)
            packing.write_files(published, packing.names_of(published / name), folder.parent)
        log(f"{task.name}: what was here is kept in {folder}; after an interruption the same command resumes without --again")


def _made_by_other_code(task: Task) -> bool:
    """Returns whether the last checkpoint was written by other code than the present."""
    steps = generations(task.run_dir / "ckpt")
    if not steps:
        return False
    try:
        state: Any = json.loads((steps[-1][1] / "state.json").read_bytes())
        return bool(state["progress"]["origin"]["sources"] != component_sources.hashes(task.spec.model))
    except (OSError, ValueError, KeyError, TypeError):
        return True
