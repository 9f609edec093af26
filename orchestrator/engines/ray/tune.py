"""The Ray engine: one Tune trial per job on one worker, scheduled by ASHA if the sweep uses it; jobs on several workers share Train runs.

Import it through `engines.execute.ray_engine`, which first sets the environment variables that Ray reads at import.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune.execution import class_cache

from orchestrator import interrupt
from orchestrator.engines.ray.capacity import live_capacity, with_gpu_memory
from orchestrator.engines.ray.cluster import LEAVING
from orchestrator.engines.ray.environment import secret_variables
from orchestrator.engines.ray.experiment import Experiment
from orchestrator.engines.ray.schedulers import NODES_WAIT, Room
from orchestrator.engines.ray.shared_folders import check_shared
from orchestrator.engines.resources import Demand, job_demands
from orchestrator.ledger import object_store
from orchestrator.ledger.results import Ledger
from orchestrator.specs.sweep import Resources
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.task import Task


def run(jobs: Sequence[Sequence[Task]], asha: Asha | None, options: ExecutionOptions) -> dict[str, str]:
    """Runs every job, at most `concurrency` of the sweep section at a time. Returns the failures: task name -> reason.

    Jobs of equal size run together, small ones first, since a large one beside small ones could wait for its workers for ever.

    At the first Ctrl-C or SIGTERM every worker saves and ends, then KeyboardInterrupt is raised; at the second it is raised at once.
    UserError if a job could never start.
    """
    results, failures, stop = options.results, dict[str, str](), interrupt.stop_file(options.results, options.slug)
    resources = Resources.model_validate((options.sweep or {}).get("resources") or {})
    with interrupt.passing_on(stop):
        capacity = live_capacity(resources)
        if capacity.gpus and resources.gpu == "auto":
            capacity = with_gpu_memory(capacity, resources)
        demands = list(zip(jobs, job_demands(jobs, capacity, resources), strict=True))
        if "RAY_ADDRESS" in os.environ:
            tasks = [task for job in jobs for task in job]
            data = {Path(task.data_dir) for task in tasks if task.data_dir is not None and Path(task.data_dir).is_dir()}
            check_shared(sorted({results.resolve(), *(Path(task.cache_dir) for task in tasks)}), sorted(data))
        for size in sorted({_size(demand) for _, demand in demands}):
            if stop.exists():
                break
            group = [(job, demand) for job, demand in demands if _size(demand) == size]
            failures |= _run_group(group, asha, resources, options)
        if stop.exists():
            raise KeyboardInterrupt
    return failures


def _size(demand: Demand) -> tuple[int, int, float, float]:
    return demand.workers, demand.fewest or demand.workers, demand.gpus, demand.cpus


def _run_group(
    group: Sequence[tuple[Sequence[Task], Demand]], asha: Asha | None, resources: Resources, options: ExecutionOptions
) -> dict[str, str]:
    """Runs jobs of one size, as many at a time as fit by their largest memory. Returns the failures."""
    demand = max((demand for _, demand in group), key=lambda demand: demand.memory or 0)
    experiment = open_experiment(demand, resources, options)
    experiment.room.start(demand)
    if asha is not None and asha.path is not None:
        asha.path = asha.path.resolve()  # actors have another working folder
    jobs, stop = [[task.to_json() for task in job] for job, _ in group], interrupt.stop_file(options.results, options.slug).resolve()
    failures = experiment.run(jobs, demand.gpus > 0, asha, stop)
    if (reason := experiment.room.reason) is not None:
        ledger, stopped = Ledger(options.results), {} if asha is None else asha.stopped()
        for task in (task for job, _ in group for task in job):
            if task.name not in stopped and (ledger.read_train(task.train_key) or {}).get("status") != "done":
                failures[task.name] = reason
    return failures


def open_experiment(demand: Demand, selected: Resources, options: ExecutionOptions) -> Experiment:
    """The Tune experiment for jobs of this size: the last one if it still runs and fits, else a new one."""
    global _last
    capacity, resources, labels = partial(live_capacity, selected), demand.resources, dict[str, str]()
    results, concurrency = options.results, (options.sweep or {}).get("concurrency")
    if "RAY_ADDRESS" in os.environ:  # the Ray of one machine counts its memory otherwise
        resources, labels = capacity().resources(demand), selected.selector
        if selected.accelerator_type is not None:
            resources[f"accelerator_type:{selected.accelerator_type}"] = 0.001
    key, storage = (demand.workers, demand.fewest, resources, labels, concurrency, results), (results / "ray").resolve()
    if _last is None or _last[0] != key or _last[1].feed.closed or _last[1].room.reason is not None or not _last[1].thread.is_alive():
        LEAVING.close()  # the last one may keep a process that holds CPUs
        limit_variables(results)
        number = len(list(storage.glob("*"))) if storage.exists() else 0
        room = Room(demand, float(os.environ.get(NODES_WAIT, 600.0)), capacity, concurrency)
        experiment = Experiment(room, resources, labels, storage / f"{options.slug}-{number}")
        LEAVING.callback(experiment.close)
        _last = (key, experiment)
    return _last[1]


_last: tuple[Any, Experiment] | None = None


def limit_variables(results: Path) -> None:
    """Limits the variables that Tune passes to its trials in a runtime environment.

    Processes of a Ray that was started here inherit them. Without a runtime environment, trials run in processes that Ray has started
    already. A cluster that was already running gets no AWS keys, since Ray writes a runtime environment to a log, unless the results are
    in a bucket: trials have no other way to get them then.
    """
    if "RAY_ADDRESS" not in os.environ:
        class_cache.ENV_VARS_TO_PROPAGATE.clear()
        class_cache.DEFAULT_ENV_VARS.clear()
    elif object_store.url(results) is None:
        class_cache.ENV_VARS_TO_PROPAGATE.difference_update(secret_variables(list(class_cache.ENV_VARS_TO_PROPAGATE), bucket=False))
