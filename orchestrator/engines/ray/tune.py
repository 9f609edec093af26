"""The Ray engine: one Tune trial a job, scheduled by ASHA where the sweep asks for it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator import interrupt
from orchestrator.engines import packing
from orchestrator.engines.capacity import Capacity, Demand, at_once
from orchestrator.engines.packing import Wanted
from orchestrator.engines.ray.cluster import DRIVER, cluster, local_cpus, preflight, with_gpu_memory
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.task import Task


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
    """Run every job; returns why those failed that failed, by task name. UserError where a job could never start, or waited too long.

    At the first Ctrl-C or SIGTERM every worker saves and ends, then KeyboardInterrupt is raised; at the second it is raised at once.
    At most `concurrency` run at a time. Jobs of equal size run together, small ones first: a large one beside small ones could wait
    for ever for its workers. resources: of each job, as the sweep's section has them (see `packing.Wanted`).
    """
    flat, wanted = [task for job in jobs for task in job], Wanted.of(resources)
    if "RAY_ADDRESS" not in os.environ:
        preflight(flat, local_cpus())
    failures: dict[str, str] = {}
    stop = interrupt.stop_file(results, name)
    with cluster(results) as capacity, interrupt.passing_on(stop):
        if capacity.gpus and wanted.gpu == "auto":
            capacity = with_gpu_memory(capacity)
        sized = list(zip(jobs, packing.demands(jobs, capacity, wanted), strict=True))
        _check_folders(flat, results)
        for size in sorted({_size(demand) for _, demand in sized}):
            _end_if_asked(stop)
            same = [(job, demand) for job, demand in sized if _size(demand) == size]
            failures |= _phase(same, asha, metric, capacity, wanted, name, results, concurrency)
        _end_if_asked(stop)
    return failures


def _end_if_asked(stop: Path) -> None:
    if stop.exists():
        raise KeyboardInterrupt


def _size(demand: Demand) -> tuple[int, float, float]:
    return demand.workers, demand.gpus, demand.cpus


def trial(config: dict[str, Any]) -> None:
    """One Tune trial. In this process where one CPU worker does it; else the driver of a Train run."""
    import ray
    from ray import tune

    from orchestrator.engines.ray.worker import asked, run_until_asked
    from orchestrator.training.runtime import Runtime

    tasks = [Task.of(data) for data in config["job"]]
    claim = f"{ray.get_runtime_context().get_job_id()}-{tune.get_context().get_trial_id()}"
    if config["train"]:
        from orchestrator.engines.ray import train

        if asked(tasks[0], Runtime()):  # a Train run takes a while to start, and all its workers
            return

        train.fit(config["job"], tasks[0].workers, config["resources"], config["storage"], claim)
        return

    for task in tasks:

        class TuneReporter:
            def on_report(self, metrics: dict[str, Any], checkpoint: Path | None, name: str = task.name) -> None:
                if "rung" in metrics:
                    tune.report({"run": name} | {k: v for k, v in metrics.items() if isinstance(v, (int, float))})

        if not run_until_asked(task, Runtime(claim=claim), [TuneReporter()]):
            return


def _resources(config: dict[str, Any]) -> Any:
    from ray import tune

    return tune.PlacementGroupFactory([{DRIVER: 1} if config["train"] else config["resources"]])


def _phase(
    sized: Sequence[tuple[Sequence[Task], Demand]],
    asha: Asha | None,
    metric: str,
    capacity: Capacity,
    wanted: Wanted,
    name: str,
    results: Path,
    concurrency: int | None,
) -> dict[str, str]:
    """Jobs of one size, as many at a time as fit by their largest memory. One is in the trial's own process where one CPU worker does it;
    else the trial drives a Train run."""
    import ray
    from ray import tune
    from ray.tune.stopper import CombinedStopper

    from orchestrator.engines.ray.asha import AblationASHA
    from orchestrator.engines.ray.environment import pass_no_secrets
    from orchestrator.engines.ray.stopping import UntilAsked
    from orchestrator.engines.ray.waiting import Waiting
    from orchestrator.engines.ray.watch import NODES_WAIT, Room, seconds

    pass_no_secrets(results)
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    storage = (results / "ray").resolve()
    configs = [[task.to_json() for task in job] for job, _ in sized]
    _, demand = max(sized, key=lambda pair: pair[1].memory or 0)
    print(packing.told(demand, capacity), file=sys.stderr, flush=True)
    stop = interrupt.stop_file(results, name).resolve()
    waiting = Waiting(capacity, stop, wanted.wait)
    ((resource, amount),) = demand.resources.items()
    room = Room(resource, amount, demand.workers, seconds(NODES_WAIT, 600.0), ray.nodes)
    tuner = tune.Tuner(
        tune.with_resources(trial, _resources),
        param_space={
            "job": tune.grid_search(configs),
            "storage": str(storage / "train"),
            "train": demand.driver,
            "resources": demand.resources,
        },
        tune_config=tune.TuneConfig(
            scheduler=UntilAsked(stop) if asha is None else AblationASHA(stop, asha, metric),
            max_concurrent_trials=min(at_once(capacity, demand), concurrency or capacity.cpus or 1),
            reuse_actors=not demand.driver,  # the next trial finds torch loaded
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"{name.replace('/', '-')}-{len(list(storage.glob('*'))) if storage.exists() else 0}",
            storage_path=str(storage),
            failure_config=tune.FailureConfig(max_failures=3),
            verbose=0,
            stop=CombinedStopper(room, waiting),
        ),
    )
    outcome = tuner.fit()
    if waiting.reason is not None:
        raise UserError(f"{waiting.reason}; the same command goes on from the last checkpoint")
    failures = {}
    for result in outcome:
        if result.error is not None:
            for task in (result.config or {}).get("job", []):
                failures[f"{task['id']}:{task['seed']}"] = str(result.error).strip().splitlines()[-1]
    if room.reason is not None:
        trained = {
            task.name for job, _ in sized for task in job if (Ledger(results).read_train(task.train_key) or {}).get("status") == "done"
        }
        failures |= {task.name: room.reason for job, _ in sized for task in job if task.name not in {*trained, *failures}}
    return failures


def _check_folders(tasks: Sequence[Task], results: Path) -> None:
    """Nodes of a cluster that runs already must share the folders; those of one that was started here do."""
    if "RAY_ADDRESS" in os.environ:
        from orchestrator.engines.ray.shared import check_shared

        data = {Path(task.data_dir) for task in tasks if task.data_dir is not None and Path(task.data_dir).is_dir()}
        check_shared(sorted({results.resolve(), *(Path(task.cache_dir) for task in tasks)}), sorted(data))


def _trial_name(trial: Any) -> str:
    job = trial.config["job"]
    seeds = "-".join(dict.fromkeys(str(task["seed"]) for task in job))
    return f"{job[0]['id'].replace('/', '-')}-s{seeds}"
