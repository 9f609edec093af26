"""What a Ray worker does with a task: its row, unless the sweep is asked to end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator import attached, interrupt
from orchestrator.fused import run_job
from orchestrator.pipeline import run_row
from orchestrator.runtime import Reporter, Runtime
from orchestrator.task import Task


def run_until_asked(task: Task, runtime: Runtime, reporters: Sequence[Reporter]) -> bool:
    """Brings `task` to its result; False where the driver asked to end: then its checkpoint is what the next call goes on from.

    Ray takes it for done, so that it does not try again; the driver knows better (`interrupt.passing_on`).
    """
    if task.sweep is not None:
        _watch(interrupt.stop_file(Path(task.results), task.sweep))
    if runtime.world_size == 1 and interrupt.requested():  # several workers ask each other in the training loop
        return False
    try:
        run_row(task, runtime, reporters)
    except KeyboardInterrupt:
        return False
    return True


def run_job_until_asked(tasks: Sequence[Task], runtime: Runtime) -> None:
    """The same of a fused job. Nothing is reported to Ray, for a job with rungs is not fused. Raises the first run's error, if any."""
    if tasks[0].sweep is not None:
        _watch(interrupt.stop_file(Path(tasks[0].results), tasks[0].sweep))
    if interrupt.requested():
        return
    try:
        errors = run_job(tasks, runtime)
    except KeyboardInterrupt:
        return
    for error in errors.values():
        raise error


def _watch(stop: Path) -> None:
    attached.follow(stop)
    interrupt.watch(stop)
