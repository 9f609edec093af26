"""The local engine."""

import sys
from collections.abc import Sequence
from functools import partial

from orchestrator import interrupt
from orchestrator.engines import pool
from orchestrator.engines.resources import quantity, side_by_side
from orchestrator.sweeps.asha import Asha, goes_on
from orchestrator.sweeps.driver import Engine
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.row import run_row
from orchestrator.sweeps.task import Task
from orchestrator.training.metrics import RungReporter
from orchestrator.training.runtime import Runtime, best_device, gpu_memory

MAX_JOBS = 1024


class Local(Engine):
    """Runs one row after the other in this process, or several at the same time in separate processes (`--jobs`)."""

    def run(self, jobs: Sequence[Sequence[Task]], asha: Asha | None, options: ExecutionOptions) -> dict[str, str]:
        if not options.has_workers:
            return run(jobs, asha)
        if options.jobs == "auto":
            size = min(side_by_side(jobs, gpu_memory()), (options.sweep or {}).get("concurrency") or MAX_JOBS)
            print(f"--jobs auto: at most {quantity(size, 'run')} at a time", file=sys.stderr, flush=True)
        else:
            size = int(options.jobs)
        return pool.run(jobs, size, asha, interrupt.stop_file(options.results, options.slug))


def run(jobs: Sequence[Sequence[Task]], asha: Asha | None) -> dict[str, str]:
    """Runs every task in this process. Returns the failures (task name -> reason); a failure does not end the other tasks."""
    failures: dict[str, str] = {}
    with interrupt.listening():
        for task in (task for job in jobs for task in job):
            try:
                run_row(task, Runtime(device=best_device()), [RungReporter(task.name, partial(goes_on, asha))])
            except Exception as error:
                failures[task.name] = f"{type(error).__name__}: {error}"
            if interrupt.requested():  # during decoding, which runs to its end because it saves no partial results
                raise KeyboardInterrupt
    return failures
