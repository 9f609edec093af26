"""Runs a recorded row and the rows it starts from again in a fresh folder, and compares the results.

The new run reads only the spec of the recorded one, never its weights, checkpoints or translations.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from orchestrator.engines.execute import ENGINES
from orchestrator.errors import CommandError, UserError
from orchestrator.files import atomic
from orchestrator.files.documents import read_object
from orchestrator.files.folders import make
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.run_view import RunView
from orchestrator.lifecycle.garbage import temporary_folder
from orchestrator.lifecycle.recorded import Recorded
from orchestrator.lifecycle.verdict import Evidence, Verdict, compare
from orchestrator.specs.positions import display
from orchestrator.sweeps import driver
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.task import Task, make_tasks

Verdicts = list[tuple[Task, Verdict]]
"""Verdicts on the rows that a row starts from, then on the row itself."""


def reproduce(recorded: Recorded, ledger: Ledger, folder: Path, data_dir: Path | None, cache_dir: Path) -> Verdicts:
    """Trains, decodes and scores in `folder`, then compares. Each run has as many workers as the recorded one.

    UserError: the data is absent, or a parent is not recorded. CommandError: a run failed.
    """
    options = ExecutionOptions(name="repro", results=folder, data_dir=data_dir, cache_dir=cache_dir, no_tracking=True)
    tasks = make_tasks([recorded.row], [recorded.row.run_spec.seed], options)
    trainings = {task.id: ledger.read_train(recorded.keys.get(task.id, task.keys).train or "") or {} for task in tasks}
    for task in tasks:
        if not trainings[task.id]:
            raise UserError(f"{task.name}: {recorded.row.id} starts from it, and it is not recorded in {display(ledger.root)}")
    tasks = [replace(task, workers=int(trainings[task.id].get("world_size") or 1), fewest_workers=None) for task in tasks]
    engine = ENGINES["ray" if any(task.workers > 1 for task in tasks) else "local"]
    outcomes = {f"{result.id}:{result.seed}": result.outcome for result in driver.execute(tasks, options, engine)}
    if failed := {name: outcome.reason for name, outcome in outcomes.items() if not outcome.finished}:
        raise CommandError(*(f"{name}: {reason}" for name, reason in failed.items()))
    return [(task, _verdict(recorded, task, ledger, Ledger(folder))) for task in tasks]


def _verdict(recorded: Recorded, task: Task, ledger: Ledger, fresh: Ledger) -> Verdict:
    keys = recorded.keys.get(task.id, task.keys)
    reason = f"train key {task.train_key[:16]}: the data, the version of a component, or the spec is not the recorded one"
    before, after = _evidence(ledger, task, keys), _evidence(fresh, task, task.keys)
    reasons = [] if keys.train == task.train_key else [reason]
    if before.train.get("workers"):
        reasons.append("its number of workers changed while it trained, by which sums are rounded")
    if keys.score is not None and not (before.scores and keys.score == task.keys.score):  # None: a trial of a search
        reasons.append("no score of this test text is recorded")
        before = before._replace(scores=before.scores or {name: {} for name in after.scores})
    return compare(before, after, reasons)


def _evidence(ledger: Ledger, task: Task, keys: Keys) -> Evidence:
    """Reads the records of a run; other scorings of the row are included only if its keys are the recorded ones."""
    view = RunView.read(ledger, task.scoring_keys if keys == task.keys else {"": keys})
    scores = {name: score for name, score in view.scores.items() if score is not None}
    return Evidence(view.training, view.capsule or {}, view.decoding or {}, scores)


@contextmanager
def fresh_folder(results: Path, into: Path | None, train_key: str) -> Iterator[Path]:
    """Yields a temporary folder, or `into`, which is not deleted and where an interrupted repro of the same run resumes.

    Raises UserError if `into` contains anything else.
    """
    if into is not None:
        record = read_object(into / "repro.json") or {}
        if into.exists() and any(into.iterdir()) and record.get("train_key") != train_key:
            raise UserError(f"--into {display(into)}: is not empty; expected a new folder, or one of an interrupted repro of this run")
        make(into, "--into")
        atomic.write_json(into / "repro.json", {"train_key": train_key})
        with RunLock(into / "lock").acquire():
            yield into
        return
    parent = results if results.is_dir() else Path(tempfile.gettempdir())
    with temporary_folder(parent, "repro") as folder, RunLock(folder / "lock").acquire():
        yield folder
