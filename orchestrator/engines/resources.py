"""Resources of a cluster and of a job: how many jobs run concurrently, and why one could never start. Does not import Ray."""

import os
import resource
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.errors import UserError, raise_all
from orchestrator.specs.sweep import Resources, size
from orchestrator.sweeps.memory import gigabytes
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

    def slots(self, demand: "Demand") -> int:
        """Number of the job's workers that fit here at the same time."""
        if demand.gpus:  # a fraction must lie on one GPU: the remainders of several GPUs do not add up
            per_gpu = int(1 / demand.gpus + EPS)
            return int(self.gpus + EPS) * per_gpu if demand.gpus < 1 else int(self.gpus / demand.gpus + EPS)
        slots = int(self.cpus / demand.cpus + EPS)
        return slots if not demand.memory or self.memory is None else min(slots, int(self.memory / demand.memory + EPS))

    def describe(self) -> str:
        """`4 CPUs, 1 GPU, 25.0 GB`."""
        gpus = f", {quantity(self.gpus, 'GPU')}" if self.gpus else ""
        return quantity(self.cpus, "CPU") + gpus + ("" if self.memory is None else f", {gigabytes(self.memory)}")


@dataclass(frozen=True)
class Capacity:
    """Resources of a cluster. gpu_memory: bytes of its smallest GPU, None if unknown. addable: nodes that its autoscaler may add."""

    nodes: tuple[Node, ...]
    gpu_memory: int | None = None
    addable: tuple[Node, ...] = ()

    @property
    def all_nodes(self) -> tuple[Node, ...]:
        return self.nodes + self.addable

    @property
    def cpus(self) -> int:
        return int(sum(node.cpus for node in self.all_nodes))

    @property
    def gpus(self) -> int:
        return int(sum(node.gpus for node in self.all_nodes))

    @property
    def drivers(self) -> int:
        return int(sum(node.drivers for node in self.nodes))

    def slots(self, demand: "Demand") -> int:
        return sum(node.slots(demand) for node in self.all_nodes)

    def resources(self, demand: "Demand") -> dict[str, float]:
        """Returns each worker's requested resources by Ray's names. Memory is included if all nodes report it; Ray then places by it."""
        known = demand.memory and all(node.memory is not None for node in self.all_nodes if node.cpus)
        return demand.resources | ({"memory": float(demand.memory or 0)} if known else {})

    def max_concurrent(self, demand: "Demand") -> int:
        """Number of such jobs that run concurrently. At least one, since `problem` has checked that it fits."""
        jobs = self.slots(demand) // demand.workers  # of a job that may have fewer, each gets all that it may, one after the other
        return max(1, min(jobs, self.drivers) if demand.workers > 1 else jobs)

    def holds(self, demand: "Demand") -> bool:
        return self.slots(demand) >= (demand.fewest or demand.workers)

    def describe(self) -> str:
        """`4 CPUs, 1 GPU`, `2 nodes: 4 CPUs + 4 CPUs`, `1 CPU and 2 x 1 CPU when needed`."""
        nodes = [node.describe() for node in self.nodes if node.cpus or node.gpus]
        live = f"{len(nodes)} nodes: " * (len(nodes) > 1) + " + ".join(nodes)
        more = " + ".join(f"{many} x {kind}" for kind, many in Counter(node.describe() for node in self.addable).items())
        return " and ".join(filter(None, [live, more and f"{more} when needed"])) or "none"

    def problem(self, demand: "Demand") -> str | None:
        """Returns why a job could never start on this cluster; None if it can. Ray would never schedule it and print no message."""
        if demand.workers > 1 and self.drivers < 1:
            start = "ray start --head --resources='{\"driver\": 64}'"
            return f"no node has the resource `driver`, on which its Tune driver sits; expected of the head: {start}"
        if self.holds(demand):
            return None
        ignore = "; --resources memory=none ignores the estimate" if self.holds(replace(demand, memory=None)) else ""
        return f"needs {demand.describe()}; the cluster has {self.describe()}, so Ray would never schedule it{ignore}"


@dataclass(frozen=True)
class Demand:
    """Demand of one job. cpus, gpus and memory (estimated host bytes, None: not counted) are per worker; several need a driver slot.

    fewest: workers with which it goes on when nodes leave; None: `workers`.
    where: which nodes it may use, ` on nodes with zone=a`; empty for all.
    """

    workers: int
    cpus: float
    gpus: float = 0.0
    memory: int | None = None
    fewest: int | None = None
    where: str = ""

    @property
    def resources(self) -> dict[str, float]:
        """Resources of one worker by Ray's names. A worker on a GPU reserves no CPU, since its loop waits for the device."""
        return {"GPU": self.gpus} if self.gpus else {"CPU": self.cpus}

    def describe(self) -> str:
        """`2 x 0.5 GPU`, `4 CPUs with 10.0 GB (estimated)`."""
        each = quantity(self.gpus, "GPU") if self.gpus else quantity(self.cpus, "CPU")
        memory = "" if self.memory is None else f" with {gigabytes(self.memory)} (estimated)"
        many = f"{self.workers} x " if self.fewest is None else f"{self.fewest} to {self.workers} x "
        return (each if self.workers == 1 else many + each) + memory + self.where


def job_demands(jobs: Sequence[Sequence[Task]], capacity: Capacity, options: Resources) -> list[Demand]:
    """Returns the demand of each job, in order. UserError with a line for each job that could never start."""
    demands, problems, data = [], [], _data(jobs[0][0])
    where = f" on nodes with {options.selection}" if options.selection and "RAY_ADDRESS" in os.environ else ""
    for task in (job[0] for job in jobs):
        fraction, problem = _gpu_fraction(task, capacity, options, data) if capacity.gpus else (0.0, None)
        memory = None if capacity.gpus else _memory(task, "cpu", options, data)
        demand = Demand(task.workers, float(task.spec.train.threads), fraction, memory, task.fewest_workers, where)
        demands.append(demand)
        if problem := problem or capacity.problem(demand):
            problems.append(f"{task.id}: {problem}")
    raise_all(problems)
    return demands


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


def _data(task: Task) -> Data:
    return Data(None if task.data_dir is None else Path(task.data_dir), Path(task.cache_dir))


def _memory(task: Task, device: str, options: Resources, data: Data) -> int | None:
    """Bytes of each worker; None if memory is ignored, or if the vocabulary is neither prepared nor declared."""
    if options.memory == "none":
        return None
    fewest = task.fewest_workers or task.workers
    return data.memory(task.spec, fewest, device) if options.memory == "auto" else int(size(options.memory))


def quantity(number: float, word: str) -> str:
    """Formats a quantity: `1 CPU`, `0.25 GPU`, `2 CPUs`."""
    return f"{number:.4g} {word}{'s' if number > 1 else ''}"


def check_limits() -> None:
    """Raises this process's limit of open files as far as allowed. UserError: Ray's processes could not start under the limits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        if hard != resource.RLIM_INFINITY and hard < LEAST_FILES:
            raise UserError(f"--engine ray: found ulimit -n {soft:,}; expected at least {LEAST_FILES:,}, or --engine local")
        resource.setrlimit(resource.RLIMIT_NOFILE, (LEAST_FILES, hard))


def check_local(tasks: Sequence[Task]) -> None:
    """UserError with a line for each task that needs more CPUs than this machine has."""
    capacity = Capacity((Node(local_cpus(), drivers=1),))
    demands = ((task.id, Demand(task.workers, float(task.spec.train.threads), fewest=task.fewest_workers)) for task in tasks)
    raise_all(f"{id}: {problem}" for id, demand in demands if (problem := capacity.problem(demand)))


def local_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(jobs: Sequence[Sequence[Task]], gpu_memory: int | None) -> int:
    """How many jobs this machine holds at a time: by its cores, or by the memory of its GPU in bytes, with a margin over the estimate.

    UserError with a line for each row that a whole GPU does not hold by the estimate.
    """
    cpus, tasks = local_cpus(), [job[0] for job in jobs]
    if gpu_memory is None:
        return max(1, cpus // max(task.spec.train.threads for task in tasks))
    data = _data(tasks[0])
    needed = {task.id: data.memory(task.spec, 1, "cuda") for task in tasks}  # one process trains a row of several workers
    known = {id: size for id, size in needed.items() if size is not None}
    raise_all(
        f"{id}: needs {gigabytes(size)} (estimated); the GPU has {gigabytes(gpu_memory)} (--jobs 1 starts it all the same)"
        for id, size in known.items()
        if size > gpu_memory
    )
    return max(1, min(cpus, int(gpu_memory / (GPU_MEMORY_MARGIN * max(known.values()))))) if len(known) == len(needed) else 1
