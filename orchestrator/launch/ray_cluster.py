"""A Ray cluster of one's own, or the one RAY_ADDRESS names: always with a token, the dashboard on, refused where work cannot fit."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.launch.capacity import Capacity, Node
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
def cluster(results: Path, cpus: int | None = None) -> Iterator[Capacity]:
    """Yields what it has. A cluster started here is shut down at the end."""
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
            yield _capacity(local=not address)
    finally:
        ray.shutdown()


def _capacity(*, local: bool) -> Capacity:
    """Of the nodes that are alive. On a cluster Ray's word counts, for the head may have no GPU; here torch must find the GPUs too."""
    import ray
    import torch

    nodes, gpus = [], not local or torch.cuda.is_available()
    for node in ray.nodes():
        has = node.get("Resources", {})
        if not node.get("Alive"):
            continue
        memory = _physical() if local else has.get("memory")
        nodes.append(Node(has.get("CPU", 0.0), has.get("GPU", 0.0) if gpus else 0.0, has.get(DRIVER, 0.0), memory))
    return Capacity(tuple(nodes))


def with_gpu_memory(capacity: Capacity, timeout: float = 60.0) -> Capacity:
    """As `capacity`, with the memory of its smallest GPU: asked of a process on each kind of GPU. Unknown where none answers in time."""
    import ray

    kinds = {
        name for node in ray.nodes() if node.get("Alive") for name in node.get("Resources", {}) if name.startswith("accelerator_type:")
    }
    wanted: list[dict[str, float]] = [{kind: 0.001} for kind in sorted(kinds)] or [{}]
    ask = ray.remote(num_cpus=0, num_gpus=0.01, max_retries=0)(_gpu_memory)
    asked = [ask.options(resources=resources).remote() for resources in wanted]
    ready, late = ray.wait(asked, num_returns=len(asked), timeout=timeout)
    for reference in late:
        ray.cancel(reference, force=True)
    known = [memory for memory in ray.get(ready) if memory is not None]
    return replace(capacity, gpu_memory=min(known) if known and not late and len(known) == len(asked) else None)


def _gpu_memory() -> int | None:
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else None


def _physical() -> float | None:
    """Bytes of this machine's memory that trials may take; the rest is the system's and Ray's."""
    try:
        return 0.9 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def refuse_upload(results: Path) -> None:
    """UserError where results would lie in a job's upload, which Ray deletes with the job."""
    if any(part == "working_dir_files" for part in results.resolve().parts):
        raise UserError(
            f"--results {results}: lies in the job's upload, which Ray deletes; expected --results or NMT_RESULTS on shared storage"
        )
