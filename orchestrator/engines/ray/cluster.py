"""A Ray cluster started for the sweep, or the one at RAY_ADDRESS; always with a token."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import ray
import torch

from orchestrator.engines.ray.environment import ray_environment, ray_folder, worker_variables
from orchestrator.engines.ray.head_watchdog import head_watchdog
from orchestrator.engines.resources import Capacity, Node, local_cpus
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

DRIVER = "driver"
"""Custom resource of Tune drivers: they need no CPU, and on a cluster they stay on the head."""


@contextmanager
def cluster(results: Path, *, several_workers: bool) -> Iterator[Capacity]:
    """Connects to Ray and yields the capacity. A cluster started here is shut down at the end.

    several_workers: a run of the sweep has several workers. Only then, and with GPUs, are there Train runs, and with them the dashboard.
    `environment.configure` must have been called before this module was imported.
    """
    address = os.environ.get("RAY_ADDRESS")
    with nullcontext() if address else ray_folder() as folder:
        try:
            try:
                if folder is None:
                    ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": worker_variables()})
                else:
                    with ray_environment(folder, results):
                        _start(folder, dashboard=several_workers or torch.cuda.is_available())
            except Exception as error:  # Ray raises many types
                what = "Ray did not start" if address is None else f"RAY_ADDRESS {shown(address)}: Ray did not connect"
                text = shown(" ".join(str(error).split()), 300)
                raise UserError(f"{what} ({type(error).__name__}): {text}; the same command tries again") from None
            node = None if address else "{NodeManagerAddress}:{NodeManagerPort}".format_map(ray.nodes()[0])
            with head_watchdog(ray.get_runtime_context().gcs_address, node):
                yield _capacity(local=not address)
        finally:
            ray.shutdown()


def _start(folder: Path, *, dashboard: bool) -> None:
    ray.init(
        num_cpus=local_cpus(),
        resources={DRIVER: 64},
        include_dashboard=dashboard,  # Train frees placement groups of stopped runs through it; its processes take long to start
        dashboard_host="127.0.0.1",
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=str(folder / "r"),  # each of Ray's processes sets it and its subfolders to 0777; the folder around it stays at 0700
    )


def _capacity(*, local: bool) -> Capacity:
    """Capacity of the live nodes. GPUs are those Ray reports, since the head may have none; on this machine torch must also see them."""
    nodes, has_gpus = [], not local or torch.cuda.is_available()
    for node in ray.nodes():
        if not node.get("Alive"):
            continue
        resources = node.get("Resources", {})
        gpus = resources.get("GPU", 0.0) if has_gpus else 0.0
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = 0.9 * whole if local else resources.get("memory")  # the rest is left to the system and Ray
        nodes.append(Node(resources.get("CPU", 0.0), gpus, resources.get(DRIVER, 0.0), memory))
    return Capacity(tuple(nodes))


def with_gpu_memory(capacity: Capacity, timeout: float = 60.0) -> Capacity:
    """`capacity` with the memory of its smallest GPU, queried on each type of GPU; None if one does not answer in time."""
    live = [node.get("Resources", {}) for node in ray.nodes() if node.get("Alive")]
    types = sorted({name for resources in live for name in resources if name.startswith("accelerator_type:")})
    query = ray.remote(num_cpus=0, num_gpus=0.01, max_retries=0)(_gpu_memory)
    queries = [query.options(resources=resources).remote() for resources in ([{name: 0.001} for name in types] or [{}])]
    ready, late = ray.wait(queries, num_returns=len(queries), timeout=timeout)
    for reference in late:
        ray.cancel(reference, force=True)
    sizes = [memory for memory in ray.get(ready) if memory is not None]
    return replace(capacity, gpu_memory=min(sizes) if sizes and len(sizes) == len(queries) else None)


def _gpu_memory() -> int | None:
    return int(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else None
