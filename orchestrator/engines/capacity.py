"""What a cluster has and what a job asks of it: how many fit side by side, and why one never would. Plain numbers, no Ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.sweeps.memory import gigabytes

EPS = 1e-6  # shares such as 1/3 are rounded by Ray to 1e-4


@dataclass(frozen=True)
class Node:
    """memory: bytes of the host for trials; None: not known."""

    cpus: float
    gpus: float = 0.0
    drivers: float = 0.0
    memory: float | None = None


@dataclass(frozen=True)
class Capacity:
    """gpu_memory: bytes of the smallest GPU; None: not known."""

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

    def told(self) -> str:
        """`2 nodes: 4 CPUs, 1 GPU`."""
        nodes = f"{len(self.nodes)} nodes: " if len(self.nodes) > 1 else ""
        return f"{nodes}{count(self.cpus, 'CPU')}" + (f", {count(self.gpus, 'GPU')}" if self.gpus else "")


@dataclass(frozen=True)
class Demand:
    """Of one job. cpus, gpus and memory (host bytes, estimated; None: not counted) are those of each worker; driver: it needs one."""

    workers: int
    cpus: float
    gpus: float = 0.0
    driver: bool = False
    memory: int | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Of a worker, as Ray names them. A worker on a GPU takes no CPU: its loop waits for the device."""
        return {"GPU": self.gpus} if self.gpus else {"CPU": self.cpus}

    def told(self) -> str:
        """`2 x 0.5 GPU`, `4 CPUs`."""
        if self.gpus:
            return count(self.gpus, "GPU") if self.workers == 1 else f"{self.workers} x {count(self.gpus, 'GPU')}"
        return count(self.workers * self.cpus, "CPU")


def count(number: float, word: str) -> str:
    """`1 CPU`, `0.25 GPU`, `2 CPUs`."""
    return f"{number:.4g} {word}{'s' if number > 1 else ''}"


def slots(node: Node, demand: Demand) -> int:
    """Workers of this size that the node holds at once."""
    have, want = (node.gpus, demand.gpus) if demand.gpus else (node.cpus, demand.cpus)
    if demand.gpus:  # a share lies on one GPU: what is left of each cannot be joined
        fit = int(have + EPS) * int(1 / want + EPS) if want < 1 else int(have / want + EPS)
    else:
        fit = int(have / want + EPS) if want > 0 else 0
    if demand.memory and node.memory is not None and not demand.gpus:
        fit = min(fit, int(node.memory / demand.memory + EPS))
    return max(0, fit)


def at_once(capacity: Capacity, demand: Demand) -> int:
    """Jobs of this size side by side, and at least one, which `why_never` has found to fit."""
    jobs = sum(slots(node, demand) for node in capacity.nodes) // demand.workers
    if demand.driver:
        jobs = min(jobs, capacity.drivers)
    return max(1, jobs)


def why_never(capacity: Capacity, demand: Demand, threads: int) -> str | None:
    """Why a job could never start here, with the numbers; None where it can. Ray would wait for ever, without a word."""
    if demand.driver and capacity.drivers < 1:
        start = "ray start --head --resources='{\"driver\": 64}'"
        return f"no node has the resource `driver`, on which its Tune driver sits; expected of the head: {start}"
    if sum(slots(node, demand) for node in capacity.nodes) >= demand.workers:
        return None
    if demand.gpus:
        return (
            f"{count(demand.workers, 'worker')} x {count(demand.gpus, 'GPU')} need more GPUs than this cluster has "
            f"({capacity.told()}): it would wait for ever"
        )
    plain = Demand(demand.workers, demand.cpus, driver=demand.driver)
    if sum(slots(node, plain) for node in capacity.nodes) >= demand.workers:
        assert demand.memory is not None
        most = max(node.memory or 0 for node in capacity.nodes)
        return (
            f"{count(demand.workers, 'worker')} of {gigabytes(demand.memory)} (estimated) do not fit the memory: the largest node has "
            f"{gigabytes(most)} for them (--resources memory=none starts it all the same)"
        )
    need = demand.workers * demand.cpus
    text = f"{demand.workers} workers x {threads} threads need {need:g} CPUs; this cluster has {capacity.cpus}"
    if need <= capacity.cpus:
        text += f", at most {max(node.cpus for node in capacity.nodes):g} on one node"
    return f"{text}: it would wait for ever"


def shares(most: int) -> Sequence[float]:
    """1, 1/2, .. 1/most, cut so that so many of them are never more than one GPU."""
    return [1.0 if n == 1 else int(10_000 / n) / 10_000 for n in range(1, most + 1)]
