"""The Ray engine: one Tune trial a job, scheduled by ASHA where the sweep asks for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator import interrupt
from orchestrator.asha import Asha
from orchestrator.fusing import is_fused
from orchestrator.launch.ray_cluster import DRIVER, cluster, cpus_needed, local_cpus, preflight
from orchestrator.results import Ledger
from orchestrator.task import Task


def run(
    jobs: Sequence[Sequence[Task]], asha: Asha | None, metric: str, *, name: str, results: Path, concurrency: int | None = None
) -> dict[str, str]:
    """Run every job; returns why those failed that failed, by task name. UserError where a job could never start.

    At the first Ctrl-C or SIGTERM every worker saves and ends, then KeyboardInterrupt is raised; at the second it is raised at once.
    At most `concurrency` run at a time. Jobs of equal size run together, small ones first: a large one beside small ones could wait
    for ever for its workers.
    """
    flat = [task for job in jobs for task in job]
    if "RAY_ADDRESS" not in os.environ:
        preflight(flat, local_cpus())
    failures: dict[str, str] = {}
    stop = interrupt.stop_file(results, name)
    with cluster(results) as cpus, interrupt.passing_on(stop):
        preflight(flat, cpus)
        _check_folders(flat, results)
        for size in sorted({cpus_needed(job[0]) for job in jobs}):
            same = [job for job in jobs if cpus_needed(job[0]) == size]
            failures |= _phase(same, asha, metric, min(max(1, cpus // size), concurrency or cpus), name, results)
            if stop.exists():
                raise KeyboardInterrupt
    return failures


def trial(config: dict[str, Any]) -> None:
    """One Tune trial. In this process where one CPU worker does it; else the driver of a Train run."""
    import ray
    from ray import tune

    from orchestrator.launch.until_asked import run_job_until_asked, run_until_asked
    from orchestrator.runtime import Runtime

    tasks = [Task.of(data) for data in config["job"]]
    claim = f"{ray.get_runtime_context().get_job_id()}-{tune.get_context().get_trial_id()}"
    if not _in_process(tasks[0]):
        from orchestrator.launch import ray_train

        ray_train.fit(config["job"], tasks[0].workers, tasks[0].run_spec.train.threads, config["storage"], claim)
        return

    if is_fused(tasks):
        run_job_until_asked(tasks, Runtime(claim=claim))
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

    task = Task.of(config["job"][0])
    return tune.PlacementGroupFactory([{"CPU": float(task.run_spec.train.threads)} if _in_process(task) else {DRIVER: 1}])


def _in_process(task: Task) -> bool:
    """Does a trial train this in its own process, without Ray Train under it?"""
    import torch

    return task.workers == 1 and not torch.cuda.is_available()


def _phase(jobs: Sequence[Sequence[Task]], asha: Asha | None, metric: str, concurrent: int, name: str, results: Path) -> dict[str, str]:
    import ray
    from ray import tune

    from orchestrator.launch.ray_asha import AblationASHA
    from orchestrator.launch.ray_watch import NODES_WAIT, Room, seconds

    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    storage = (results / "ray").resolve()
    configs = [[task.to_json() for task in job] for job in jobs]
    room = Room(*_worker_resources(jobs[0][0]), jobs[0][0].workers, seconds(NODES_WAIT, 600.0), ray.nodes)
    tuner = tune.Tuner(
        tune.with_resources(trial, _resources),
        param_space={"job": tune.grid_search(configs), "storage": str(storage / "train")},
        tune_config=tune.TuneConfig(
            scheduler=None if asha is None else AblationASHA(asha, metric),
            max_concurrent_trials=concurrent,
            reuse_actors=_in_process(jobs[0][0]),  # the next trial finds torch loaded
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"{name.replace('/', '-')}-{len(list(storage.glob('*'))) if storage.exists() else 0}",
            storage_path=str(storage),
            failure_config=tune.FailureConfig(max_failures=3),
            verbose=0,
            stop=room,
        ),
    )
    outcome = tuner.fit()
    failures = {}
    for result in outcome:
        if result.error is not None:
            for task in (result.config or {}).get("job", []):
                failures[f"{task['id']}:{task['seed']}"] = str(result.error).strip().splitlines()[-1]
    if room.reason is not None:
        trained = {task.name for job in jobs for task in job if (Ledger(results).read_train(task.train_key) or {}).get("status") == "done"}
        failures |= {task.name: room.reason for job in jobs for task in job if task.name not in {*trained, *failures}}
    return failures


def _check_folders(tasks: Sequence[Task], results: Path) -> None:
    """Nodes of a cluster that runs already must share the folders; those of one that was started here do."""
    if "RAY_ADDRESS" in os.environ:
        from orchestrator.launch.ray_shared import check_shared

        data = {Path(task.data_dir) for task in tasks if task.data_dir is not None and Path(task.data_dir).is_dir()}
        check_shared(sorted({results.resolve(), *(Path(task.cache_dir) for task in tasks)}), sorted(data))


def _worker_resources(task: Task) -> tuple[str, float]:
    import torch

    return ("GPU", 1.0) if torch.cuda.is_available() else ("CPU", float(task.run_spec.train.threads))


def _trial_name(trial: Any) -> str:
    job = trial.config["job"]
    seeds = "-".join(dict.fromkeys(str(task["seed"]) for task in job))
    return f"{job[0]['id'].replace('/', '-')}-s{seeds}"
