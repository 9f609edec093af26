"""Runs rows on the engine given by the options."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch

from orchestrator.engines.local import MAX_JOBS, Local
from orchestrator.engines.ray import environment
from orchestrator.engines.ray.address import check_address, check_mode
from orchestrator.engines.resources import check_limits, check_local, local_cpus
from orchestrator.errors import UserError
from orchestrator.safe_text import log
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.row import Row
from orchestrator.specs.sweep import Resources
from orchestrator.sweeps import driver
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.row import Result
from orchestrator.sweeps.task import Task, make_tasks


class Ray(driver.Engine):
    """Runs rows with Ray Tune, and with Ray Train if a run has several workers or a GPU."""

    def check(self, tasks: Sequence[Task]) -> None:
        check_limits()
        check_mode()
        address = os.environ.get("RAY_ADDRESS")
        check_local(tasks) if address is None else check_address(address)

    def session(self, options: ExecutionOptions, workers: int) -> AbstractContextManager[None]:
        ray_engine(options.results)
        from orchestrator.engines.ray.cluster import cluster

        return cluster(options.results, several_workers=workers > 1)

    def run(self, jobs: Sequence[Sequence[Task]], asha: Asha | None, options: ExecutionOptions) -> dict[str, str]:
        return ray_engine(options.results).run(jobs, asha, options)


ENGINES: dict[str, driver.Engine] = {"local": Local(), "ray": Ray()}


def ray_engine(results: Path) -> ModuleType:
    """Imports `engines.ray.tune` after setting the environment variables that Ray reads at import."""
    environment.configure(results)
    from orchestrator.engines.ray import tune

    return tune


def check_engine(engine: str, workers: int | None, jobs: str) -> None:
    """UserError for an unknown engine, for more workers than it supports, or for `--jobs` that it does not take."""
    if engine not in (*ENGINES, "auto"):
        raise UserError(f"--engine {shown(engine)}: {nearest(engine, (*ENGINES, 'auto'))}")
    if engine == "local" and workers is not None and workers > 1:
        raise UserError(f"--workers {workers}: the local engine has one worker; expected --engine ray")
    if jobs not in ("", "auto") and (not jobs.isdecimal() or not 1 <= int(jobs) <= MAX_JOBS):
        raise UserError(f"--jobs {shown(jobs)}: expected auto or a number from 1 to {MAX_JOBS}")
    if engine == "ray" and jobs not in ("", "1"):
        raise UserError(f"--jobs {jobs}: Ray decides how many runs fit side by side; expected --engine local")


def choose_engine(rows: Sequence[Row], options: ExecutionOptions) -> ExecutionOptions:
    """Returns the options with an engine instead of `auto`: the local one with as many processes as fit, or Ray if that is not enough.

    Ray runs rows on a cluster (RAY_ADDRESS), on several workers or GPUs, with more threads than local cores, or with sweep `resources`.
    """
    if options.engine != "auto":
        return replace(options, jobs=options.jobs or "1")
    several = any((options.workers or row.most_workers) > 1 for row in rows)
    large = any(row.spec is not None and row.spec.train.threads > local_cpus() for row in rows)
    resources = Resources.model_validate((options.sweep or {}).get("resources") or {})
    if "RAY_ADDRESS" in os.environ or several or large or resources != Resources() or torch.cuda.device_count() > 1:
        check_engine("ray", options.workers, options.jobs)
        return replace(options, engine="ray", jobs="1")
    jobs = options.jobs or "auto"
    log(f"no cluster is named and every row has one worker: --engine local --jobs {jobs} (--engine ray runs the rows with Ray)")
    return replace(options, engine="local", jobs=jobs)


def session(options: ExecutionOptions, rows: Sequence[Row]) -> AbstractContextManager[None]:
    """Context: several calls of `execute` share one Ray, in place of one each."""
    return ENGINES[options.engine].session(options, max(options.workers or row.most_workers for row in rows))


def execute(rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> list[Result]:
    """Runs every row with every seed: tasks of `sweeps.driver.execute`. UserError if the results would be deleted with a Ray job."""
    if "working_dir_files" in options.results.resolve().parts:
        raise UserError(
            f"--results {options.results}: lies in the job's upload, which Ray deletes; expected --results or NMT_RESULTS on shared storage"
        )
    return driver.execute(make_tasks(rows, seeds, options), options, ENGINES[options.engine])
