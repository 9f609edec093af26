"""The Ray engine: one Tune trial per job, scheduled by ASHA if the sweep uses it.

Import it through `engines.execute.ray_engine`, which first sets the environment variables that Ray reads at import.
"""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.execution import class_cache
from ray.tune.progress_reporter import TrialProgressCallback

from orchestrator import interrupt
from orchestrator.engines.ray.cluster import DRIVER, cluster, live_capacity, with_gpu_memory
from orchestrator.engines.ray.environment import secret_variables
from orchestrator.engines.ray.schedulers import NODES_WAIT, AblationASHA, NodeLossStopper, StoppableFIFO
from orchestrator.engines.ray.shared_folders import check_shared
from orchestrator.engines.resources import Capacity, Demand, job_demands, quantity
from orchestrator.engines.worker import RungReporter, run_task, stop_requested
from orchestrator.ledger import object_store
from orchestrator.ledger.results import Ledger
from orchestrator.specs.sweep import Resources
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Runtime


def run(
    jobs: Sequence[Sequence[Task]],
    asha: Asha | None,
    metric: str,
    *,
    name: str,
    results: Path,
    concurrency: int | None = None,
    resources: dict[str, Any] | None = None,
) -> dict[str, str]:
    """Runs every job, at most `concurrency` at a time. Returns the failures: task name -> reason.

    Jobs of equal size run together, small ones first, since a large one beside small ones could wait for its workers for ever.
    resources: the sweep's `resources` section (see `specs.sweep.Resources`).

    At the first Ctrl-C or SIGTERM every worker saves and ends, then KeyboardInterrupt is raised; at the second it is raised at once.
    UserError if a job could never start.
    """
    options, failures, stop = Resources.model_validate(resources or {}), dict[str, str](), interrupt.stop_file(results, name)
    with cluster(results, several_workers=any(task.workers > 1 for job in jobs for task in job)) as capacity, interrupt.passing_on(stop):
        if capacity.gpus and options.gpu == "auto":
            capacity = with_gpu_memory(capacity)
        demands = list(zip(jobs, job_demands(jobs, capacity, options), strict=True))
        if "RAY_ADDRESS" in os.environ:
            tasks = [task for job in jobs for task in job]
            data = {Path(task.data_dir) for task in tasks if task.data_dir is not None and Path(task.data_dir).is_dir()}
            check_shared(sorted({results.resolve(), *(Path(task.cache_dir) for task in tasks)}), sorted(data))
        for size in sorted({_size(demand) for _, demand in demands}):
            if stop.exists():
                break
            group = [(job, demand) for job, demand in demands if _size(demand) == size]
            failures |= _run_group(group, asha, metric, capacity, options, name, results, concurrency)
        if stop.exists():
            raise KeyboardInterrupt
    return failures


def _size(demand: Demand) -> tuple[int, float, float]:
    return demand.workers, demand.gpus, demand.cpus


class Silent(TrialProgressCallback):
    """Stands in for Ray's own, which prints a line at the end of each trial at any verbosity; ours say more."""

    def on_trial_complete(self, *arguments: Any, **options: Any) -> None:
        """Prints nothing."""


def trial(config: dict[str, Any]) -> None:
    """One Tune trial: runs the job in this process if one CPU worker suffices, else drives a Train run."""
    tasks = [Task.of(data) for data in config["job"]]
    claim = f"{ray.get_runtime_context().get_job_id()}-{tune.get_context().get_trial_id()}"
    if config["train"]:
        from orchestrator.engines.ray import train  # takes a second to import, and other trials do not need it

        if not stop_requested(tasks[0], Runtime()):  # checked here because a Train run takes long to start
            train.fit(config["job"], tasks[0].workers, config["resources"], config["storage"], claim)
        return
    for task in tasks:
        if not run_task(task, Runtime(claim=claim), [RungReporter(task.name, tune.report)]):
            return


def _run_group(
    group: Sequence[tuple[Sequence[Task], Demand]],
    asha: Asha | None,
    metric: str,
    capacity: Capacity,
    options: Resources,
    name: str,
    results: Path,
    concurrency: int | None,
) -> dict[str, str]:
    """Runs jobs of one size, as many at a time as fit by their largest memory. Returns the failures."""
    limit_variables(results)
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    storage, stop = (results / "ray").resolve(), interrupt.stop_file(results, name).resolve()
    demand = max((demand for _, demand in group), key=lambda demand: demand.memory or 0)
    many = capacity.max_concurrent(demand)
    print(f"{demand.describe()}: at most {quantity(many, 'run')} at a time on {capacity.describe()}", file=sys.stderr, flush=True)
    node_loss = NodeLossStopper(demand, float(os.environ.get(NODES_WAIT, 600.0)), live_capacity)
    tuner = tune.Tuner(
        tune.with_resources(trial, tune.PlacementGroupFactory([{DRIVER: 1} if demand.driver else demand.resources])),
        param_space={
            "job": tune.grid_search([[task.to_json() for task in job] for job, _ in group]),
            "storage": str(storage / "train"),
            "train": demand.driver,
            "resources": demand.resources,
        },
        tune_config=tune.TuneConfig(
            scheduler=StoppableFIFO(stop) if asha is None else AblationASHA(stop, asha, metric),
            max_concurrent_trials=min(many, concurrency or capacity.cpus or 1),
            reuse_actors=True,  # saves the next trial the import of torch
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"{name.replace('/', '-')}-{len(list(storage.glob('*'))) if storage.exists() else 0}",
            storage_path=str(storage),
            failure_config=tune.FailureConfig(max_failures=3),
            verbose=0,
            callbacks=[Silent()],
            stop=node_loss,
        ),
    )
    trials = tuner.fit()
    failures = {
        f"{task['id']}:{task['seed']}": str(result.error).strip().splitlines()[-1]
        for result in trials
        if result.error is not None
        for task in (result.config or {}).get("job", [])
    }
    if node_loss.reason is not None:
        ledger = Ledger(results)
        for task in (task for job, _ in group for task in job):
            if (ledger.read_train(task.train_key) or {}).get("status") != "done":
                failures.setdefault(task.name, node_loss.reason)
    return failures


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


def _trial_name(trial: Any) -> str:
    job = trial.config["job"]
    seeds = "-".join(dict.fromkeys(str(task["seed"]) for task in job))
    return f"{job[0]['id'].replace('/', '-')}-s{seeds}"
