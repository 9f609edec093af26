"""What a Ray worker does with a task: its row, unless the sweep is asked to end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from orchestrator import interrupt
from orchestrator.ledger import mirrored
from orchestrator.sweeps.row import run_row
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Reporter, Runtime


def run_until_asked(task: Task, runtime: Runtime, reporters: Sequence[Reporter]) -> bool:
    """Brings `task` to its result; False where the driver asked to end: then its checkpoint is what the next call goes on from.

    Ray takes it for done, so that it does not try again; the driver knows better (`interrupt.passing_on`).
    """
    if asked(task, runtime):
        return False
    try:
        run_row(task, runtime, reporters)
    except KeyboardInterrupt:
        return False
    return True


def asked(task: Task, runtime: Runtime) -> bool:
    """Is the sweep of `task` asked to end? All workers of a row come to one answer. From now on this process looks for it."""
    if task.sweep is not None:
        stop = interrupt.stop_file(Path(task.results), task.sweep)
        mirrored.follow(stop)
        interrupt.watch(stop)
    if runtime.world_size == 1:
        return interrupt.requested()
    return bool(runtime.sum(torch.tensor(float(interrupt.requested()), device=runtime.device)) > 0)
