"""Run rows on the engine that the options name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.engines import local
from orchestrator.engines.ray.address import check_address
from orchestrator.engines.ray.cluster import local_cpus, preflight, refuse_upload
from orchestrator.errors import UserError
from orchestrator.specs.positions import nearest, shown
from orchestrator.sweeps import driver
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.task import Task

if TYPE_CHECKING:
    from orchestrator.specs.row import Row
    from orchestrator.sweeps.asha import Asha


class Local:
    """One run after the other in this process."""

    def check(self, tasks: Sequence[Task]) -> None:
        """Every task can run in this process."""

    def run(self, jobs: Sequence[Sequence[Task]], asha: Asha | None, options: ExecutionOptions) -> dict[str, str]:
        return local.run(jobs, asha, options.metric)


class Ray:
    """Ray Tune, and Ray Train where a run has several workers or a GPU."""

    def check(self, tasks: Sequence[Task]) -> None:
        address = os.environ.get("RAY_ADDRESS")
        preflight(tasks, local_cpus()) if address is None else check_address(address)

    def run(self, jobs: Sequence[Sequence[Task]], asha: Asha | None, options: ExecutionOptions) -> dict[str, str]:
        from orchestrator.engines.ray import tune

        section = options.sweep or {}
        limits = {"concurrency": section.get("concurrency"), "resources": section.get("resources")}
        return tune.run(jobs, asha, options.metric, name=options.slug, results=options.results, **limits)


ENGINES: dict[str, type[driver.Engine]] = {"local": Local, "ray": Ray}


def check_engine(engine: str, workers: int | None) -> None:
    """UserError for a word that these options do not have."""
    if engine not in ENGINES:
        raise UserError(f"--engine {shown(engine)}: {nearest(engine, ENGINES)}")
    if engine == "local" and workers is not None and workers > 1:
        raise UserError(f"--workers {workers}: the local engine has one worker; expected --engine ray")


def execute(rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> list[dict[str, Any]]:
    """Bring every row and seed to its result (see `sweeps.driver.execute`). UserError where the results would not outlive a job."""
    refuse_upload(options.results)
    return driver.execute(rows, seeds, options, ENGINES[options.engine]())
