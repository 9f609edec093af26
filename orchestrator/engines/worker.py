"""The work of a worker process: runs a task's row unless the sweep was stopped."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator import interrupt
from orchestrator.sweeps.row import run_row
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Reporter, Runtime


def run_task(task: Task, runtime: Runtime, reporters: Sequence[Reporter]) -> bool:
    """Runs `task` to its result. Returns False if the sweep was stopped; the next call resumes from the checkpoint.

    For Ray the trial succeeded in both cases, so that it is not retried; the driver detects the interruption itself.
    """
    if task.sweep is not None:
        interrupt.watch(interrupt.stop_file(Path(task.results), task.sweep))
    if runtime.any(interrupt.requested()):  # all workers of a row agree
        return False
    try:
        run_row(task, runtime, reporters)
    except KeyboardInterrupt:
        return False
    return True
