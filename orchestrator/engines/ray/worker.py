"""What a Ray worker does with a task: run its row, unless the sweep is asked to stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from orchestrator import interrupt
from orchestrator.ledger import object_store
from orchestrator.sweeps.row import run_row
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Reporter, Runtime


def run_task(task: Task, runtime: Runtime, reporters: Sequence[Reporter]) -> bool:
    """Runs `task` to its result. False if the sweep was asked to stop; the next call resumes from the checkpoint.

    To Ray the trial succeeded either way, so that it is not retried; the driver knows that it was interrupted.
    """
    if stop_requested(task, runtime):
        return False
    try:
        run_row(task, runtime, reporters)
    except KeyboardInterrupt:
        return False
    return True


def stop_requested(task: Task, runtime: Runtime) -> bool:
    """Was the sweep of `task` asked to stop? All workers of a row agree. This process polls the sweep's stop file from now on."""
    if task.sweep is not None:
        stop = interrupt.stop_file(Path(task.results), task.sweep)
        object_store.follow(stop)
        interrupt.watch(stop)
    if runtime.world_size == 1:
        return interrupt.requested()
    return bool(runtime.sum(torch.tensor(float(interrupt.requested()), device=runtime.device)) > 0)
