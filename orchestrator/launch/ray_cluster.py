"""A Ray cluster of one's own, or the one RAY_ADDRESS names: always with a token, the dashboard on, refused where work cannot fit."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.task import Task

DRIVER = "driver"  # custom resource that Tune drivers sit on: they take no CPU, and on a cluster they stay on the head

WORKER_VARIABLES = (
    "RAY_TRAIN_V2_ENABLED",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S",
    "RAY_AIR_NEW_OUTPUT",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO",
    "OMP_NUM_THREADS",
    "NMT_FAULT",
    "NMT_FAULT_ONCE",
)


def cpus_needed(task: Task) -> int:
    return task.workers * task.run_spec.train.threads


def preflight(tasks: Sequence[Task], cpus: int) -> None:
    """UserError for every task that could never start on `cpus`: Ray would wait for ever, without a word."""
    lines = [
        f"{task.id}: {task.workers} workers x {task.run_spec.train.threads} threads need {cpus_needed(task)} CPUs; "
        f"this cluster has {cpus}: it would wait for ever"
        for task in tasks
        if cpus_needed(task) > cpus
    ]
    if lines:
        raise UserError(*dict.fromkeys(lines))


def local_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _environment(results: Path) -> None:
    """Settings Ray reads at start. The token file is made here with mode 0600; Ray's own is world-readable."""
    defaults = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
        "RAY_TRAIN_V2_ENABLED": "1",
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",  # rows wait for each other; for nodes that were lost see `ray_watch`
        "RAY_AIR_NEW_OUTPUT": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours lets workers save first
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_DISABLE_AUTO_CALLBACK_SYNCER": "1",
        "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
        "OMP_NUM_THREADS": "1",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ and "RAY_ADDRESS" not in os.environ:
        path = results / "ray" / "auth_token"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(path.resolve())


def _for_workers() -> dict[str, str]:
    """What processes of a cluster that runs already get from this one. Ray refuses what the job's own environment names too."""
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")).get("runtime_env") or {}
    return {name: os.environ[name] for name in WORKER_VARIABLES if name in os.environ and name not in job.get("env_vars", {})}


@contextmanager
def cluster(results: Path, cpus: int | None = None) -> Iterator[int]:
    """Yields the number of CPUs. A cluster started here is shut down at the end."""
    _environment(results)
    import ray

    address = os.environ.get("RAY_ADDRESS")
    if address:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": _for_workers()})
    else:
        # the dashboard must run: placement groups of stopped trials are freed through it; a short path for its sockets
        temp = tempfile.mkdtemp(prefix="nmt-ray-", dir="/tmp" if Path("/tmp").is_dir() else None)
        ray.init(
            num_cpus=cpus or local_cpus(),
            resources={DRIVER: 64},
            include_dashboard=True,
            dashboard_host="127.0.0.1",
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=temp,
        )
    from orchestrator.launch.ray_watch import watching

    try:
        with watching(ray.get_runtime_context().gcs_address):
            yield int(ray.cluster_resources().get("CPU", 0))
    finally:
        ray.shutdown()
