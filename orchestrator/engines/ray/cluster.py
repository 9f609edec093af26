"""A Ray cluster of one's own, or the one RAY_ADDRESS names: always with a token, the dashboard on, refused where work cannot fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from orchestrator.engines.capacity import Capacity, Node
from orchestrator.engines.ray.environment import for_workers, inherited, settings
from orchestrator.engines.ray.session_folder import ray_folder
from orchestrator.errors import UserError
from orchestrator.sweeps.task import Task

DRIVER = "driver"  # custom resource that Tune drivers sit on: they take no CPU, and on a cluster they stay on the head


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


@contextmanager
def cluster(results: Path, cpus: int | None = None) -> Iterator[Capacity]:
    """Yields what it has. A cluster started here is shut down at the end."""
    settings(results)
    address = os.environ.get("RAY_ADDRESS")
    with nullcontext() if address else ray_folder() as folder:
        import ray

        try:
            if folder is None:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": for_workers()})
            else:
                with inherited(folder, results):
                    _start(folder, cpus)
            from orchestrator.engines.ray.watch import watching

            with watching(ray.get_runtime_context().gcs_address):
                yield _capacity(local=not address)
        finally:
            ray.shutdown()


def _start(folder: Path, cpus: int | None) -> None:
    import ray

    ray.init(
        num_cpus=cpus or local_cpus(),
        resources={DRIVER: 64},
        include_dashboard=True,  # it must run: placement groups of stopped trials are freed through it
        dashboard_host="127.0.0.1",
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=str(folder),
    )


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
