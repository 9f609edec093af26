"""Resources of a cluster and of a job: how many jobs run concurrently, and why one could never start. Does not import Ray."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.specs.sweep import Resources, size
from orchestrator.sweeps import parameters
from orchestrator.sweeps.memory import estimate, gigabytes
from orchestrator.sweeps.plan import Data
from orchestrator.sweeps.task import Task

EPS = 1e-6  # Ray rounds fractions such as 1/3 to 1e-4

LEAST_FILES = 1024
"""Files that Ray's processes open beside each other, with room for workers; with too few they wait for each other for minutes."""

MAX_TRIALS_PER_GPU = 8
"""More trials on one GPU gain little, since each keeps it busy for only part of the time (assumed, not measured)."""

GPU_MEMORY_MARGIN = 1.25
"""A fraction of a GPU must hold this multiple of the estimated memory."""


@dataclass(frozen=True)
class Node:
    """memory: bytes of host memory available to trials, None if unknown. drivers: slots for Tune drivers."""

    cpus: float
    gpus: float = 0.0
    drivers: float = 0.0
    memory: float | None = None


@dataclass(frozen=True)
class Capacity:
    """Resources of a cluster. gpu_memory: bytes of its smallest GPU, None if unknown."""

    nodes: tuple[Node, ...]
    gpu_memory: int | None = None

    @property
    def cpus(self) -> int:
        return int(sum(node.cpus for node in self.nodes))

    @property
    def gpus(self) -> int:
        return int(sum(node.gpus for node in self.nodes))

    @property
    def drivers(self) -> int:
        return int(sum(node.drivers for node in self.nodes))

    def describe(self) -> str:
        """`2 nodes: 4 CPUs, 1 GPU`."""
        nodes = f"{len(self.nodes)} nodes: " if len(self.nodes) > 1 else ""
        return f"{nodes}{quantity(self.cpus, 'CPU')}" + (f", {quantity(self.gpus, 'GPU')}" if self.gpus else "")


@dataclass(frozen=True)
class Demand:
    """Demand of one job. cpus, gpus and memory (estimated host bytes, None: not counted) are per worker. driver: needs a driver slot."""

    workers: int
    cpus: float
    gpus: float = 0.0
    driver: bool = False
    memory: int | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Resources of one worker by Ray's names. A worker on a GPU reserves no CPU, since its loop waits for the device."""
        return {"GPU": self.gpus} if self.gpus else {"CPU": self.cpus}

    def describe(self) -> str:
        """`2 x 0.5 GPU`, `4 CPUs`."""
        if self.gpus:
            return quantity(self.gpus, "GPU") if self.workers == 1 else f"{self.workers} x {quantity(self.gpus, 'GPU')}"
        return quantity(self.workers * self.cpus, "CPU")


def job_demands(jobs: Sequence[Sequence[Task]], capacity: Capacity, options: Resources) -> list[Demand]:
    """Returns the demand of each job, in order. UserError with a line for each job that could never start."""
    first = jobs[0][0]
    data = Data(None if first.data_dir is None else Path(first.data_dir), Path(first.cache_dir))
    demands, problems = [], []
    for job in jobs:
        demand, problem = _demand(job[0], capacity, options, data)
        problem = problem or infeasible(capacity, demand, job[0].spec.train.threads)
        if problem is not None:
            problems.append(f"{job[0].id}: {problem}")
        demands.append(demand)
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return demands


def _demand(task: Task, capacity: Capacity, options: Resources, data: Data) -> tuple[Demand, str | None]:
    """Returns the task's demand, and the reason if it cannot be met."""
    threads = float(task.spec.train.threads)
    if capacity.gpus:
        fraction, problem = _gpu_fraction(task, capacity, options, data)
        return Demand(task.workers, threads, fraction, driver=True), problem
    return Demand(task.workers, threads, driver=task.workers > 1, memory=_memory(task, "cpu", options, data)), None


def _gpu_fraction(task: Task, capacity: Capacity, options: Resources, data: Data) -> tuple[float, str | None]:
    """Returns the GPUs of each worker, and the reason if even a whole one is too small."""
    if options.gpu != "auto":
        gpu = float(options.gpu)
        if task.workers == 1 or gpu >= 1:
            return gpu, None
        return gpu, f"{task.workers} workers x {gpu:g} GPU: NCCL needs a GPU for each; expected gpu 1"
    needed = _memory(task, "cuda", options, data)
    if needed is None or capacity.gpu_memory is None:
        return 1.0, None
    if needed > capacity.gpu_memory:
        problem = f"each worker needs {gigabytes(needed)} (estimated); the smallest GPU has {gigabytes(capacity.gpu_memory)}"
        return 1.0, f"{problem} (--resources memory=none starts it all the same)"
    if task.workers > 1:
        return 1.0, None
    fractions = [1.0, *(int(10_000 / n) / 10_000 for n in range(2, MAX_TRIALS_PER_GPU + 1))]  # rounded down, so that n fit one GPU
    return [f for f in fractions if f == 1.0 or needed * GPU_MEMORY_MARGIN <= f * capacity.gpu_memory][-1], None


def _memory(task: Task, device: str, options: Resources, data: Data) -> int | None:
    """Bytes of each worker; None if memory is ignored, or if the vocabulary is neither prepared nor declared."""
    if options.memory == "none":
        return None
    return estimated_memory(task, device, data) if options.memory == "auto" else int(size(options.memory))


def estimated_memory(task: Task, device: str, data: Data) -> int | None:
    """Estimated bytes of each worker; None if the vocabulary is neither prepared nor declared."""
    spec = task.spec
    sizes = data.vocabulary_sizes(spec)
    if sizes is None:
        return None
    return estimate(spec, parameters.params(spec, *sizes), sizes[1], workers=task.workers, device=device).total


def quantity(number: float, word: str) -> str:
    """Formats a quantity: `1 CPU`, `0.25 GPU`, `2 CPUs`."""
    return f"{number:.4g} {word}{'s' if number > 1 else ''}"


def worker_slots(node: Node, demand: Demand) -> int:
    """Number of such workers that fit on the node at the same time."""
    if demand.gpus:  # a fraction must lie on one GPU: the remainders of several GPUs do not add up
        per_gpu = int(1 / demand.gpus + EPS)
        return int(node.gpus + EPS) * per_gpu if demand.gpus < 1 else int(node.gpus / demand.gpus + EPS)
    slots = int(node.cpus / demand.cpus + EPS)
    return slots if not demand.memory or node.memory is None else min(slots, int(node.memory / demand.memory + EPS))


def max_concurrent(capacity: Capacity, demand: Demand) -> int:
    """Number of such jobs that run concurrently. At least one, since `infeasible` has checked that it fits."""
    jobs = sum(worker_slots(node, demand) for node in capacity.nodes) // demand.workers
    return max(1, min(jobs, capacity.drivers) if demand.driver else jobs)


def infeasible(capacity: Capacity, demand: Demand, threads: int) -> str | None:
    """The reason why a job could never start on this cluster; None if it can. Ray itself would wait for ever without a message."""
    if demand.driver and capacity.drivers < 1:
        start = "ray start --head --resources='{\"driver\": 64}'"
        return f"no node has the resource `driver`, on which its Tune driver sits; expected of the head: {start}"
    if sum(worker_slots(node, demand) for node in capacity.nodes) >= demand.workers:
        return None
    workers = quantity(demand.workers, "worker")
    if demand.gpus:
        gpus = quantity(demand.gpus, "GPU")
        return f"{workers} x {gpus} need more GPUs than this cluster has ({capacity.describe()}): it would wait for ever"
    without_memory = Demand(demand.workers, demand.cpus, driver=demand.driver)
    if sum(worker_slots(node, without_memory) for node in capacity.nodes) >= demand.workers:
        assert demand.memory is not None
        largest = gigabytes(max(node.memory or 0 for node in capacity.nodes))
        return (
            f"{workers} of {gigabytes(demand.memory)} (estimated) do not fit the memory: the largest node has "
            f"{largest} for them (--resources memory=none starts it all the same)"
        )
    needed = demand.workers * demand.cpus
    text = f"{demand.workers} workers x {threads} threads need {needed:g} CPUs; this cluster has {capacity.cpus}"
    if needed <= capacity.cpus:
        text += f", at most {max(node.cpus for node in capacity.nodes):g} on one node"
    return f"{text}: it would wait for ever"


def summary(demand: Demand, capacity: Capacity) -> str:
    """One line on the resources of a group of equal jobs."""
    memory = "" if demand.memory is None else f", {gigabytes(demand.memory)} each (estimated)"
    jobs = quantity(max_concurrent(capacity, demand), "run")
    return f"{demand.describe()}{memory}: at most {jobs} at a time on {capacity.describe()}"


def check_limits() -> None:
    """Raises this process's limit of open files as far as it may. UserError where Ray's processes could not start under its limits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        if hard != resource.RLIM_INFINITY and hard < LEAST_FILES:
            raise UserError(f"--engine ray: found ulimit -n {soft:,}; expected at least {LEAST_FILES:,}, or --engine local")
        resource.setrlimit(resource.RLIMIT_NOFILE, (LEAST_FILES, hard))
    mapped, memory = resource.getrlimit(resource.RLIMIT_AS)[0], os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if mapped != resource.RLIM_INFINITY and mapped < memory:
        found = f"ulimit -v {mapped // 1024:,} (kB)"
        raise UserError(f"--engine ray: found {found}; expected no limit below this machine's memory, or --engine local")


def check_local(tasks: Sequence[Task]) -> None:
    """UserError with a line for each task that needs more CPUs than this machine has."""
    capacity = Capacity((Node(local_cpus()),))
    problems = []
    for task in tasks:
        threads = task.spec.train.threads
        if problem := infeasible(capacity, Demand(task.workers, float(threads)), threads):
            problems.append(f"{task.id}: {problem}")
    if problems:
        raise UserError(*dict.fromkeys(problems))


def local_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(jobs: Sequence[Sequence[Task]], gpu_memory: int | None) -> int:
    """How many jobs this machine holds at a time: by its cores, or by the memory of its GPU in bytes, with a margin over the estimate.

    UserError with a line for each row that a whole GPU does not hold by the estimate.
    """
    cpus, tasks = local_cpus(), [job[0] for job in jobs]
    if gpu_memory is None:
        return max(1, cpus // max(task.spec.train.threads for task in tasks))
    data = Data(None if tasks[0].data_dir is None else Path(tasks[0].data_dir), Path(tasks[0].cache_dir))
    needed = {task.id: estimated_memory(task, "cuda", data) for task in tasks}
    if too_large := [
        f"{id}: needs {gigabytes(size)} (estimated); the GPU has {gigabytes(gpu_memory)} (--jobs 1 starts it all the same)"
        for id, size in needed.items()
        if size is not None and size > gpu_memory
    ]:
        raise UserError(*too_large)
    if None in needed.values():
        return 1
    largest = max(size for size in needed.values() if size is not None)
    return max(1, min(cpus, int(gpu_memory / (GPU_MEMORY_MARGIN * largest))))
