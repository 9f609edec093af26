"""Which resources each job gets: CPUs by threads, a GPU or a part of one by its memory, and what cannot fit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.engines.capacity import Capacity, Demand, count, shares, why_never
from orchestrator.errors import UserError
from orchestrator.ledger.keys import manifest_key
from orchestrator.specs.resources import size
from orchestrator.sweeps.memory import Memory, estimate, gigabytes
from orchestrator.sweeps.task import Task

MOST = 8
"""Trials on one GPU: more gain little, since each fills it for some of the time (assumed: not measured)."""

MARGIN = 1.25
"""What a share of a GPU must have over the estimate."""


@dataclass(frozen=True)
class Wanted:
    """`resources` of a sweep. gpu: of each worker, or `auto`: as many trials on a GPU as its memory holds, by the estimate.

    memory: `auto` (the estimate counts), `none` (it does not), or bytes of each worker. wait: seconds after which a sweep that gets
    no resources ends; None: it waits, and says so.
    """

    gpu: float | str = 1.0
    memory: float | str = "auto"
    wait: float | None = None

    @classmethod
    def of(cls, section: dict[str, Any] | None) -> Wanted:
        """From the `resources` section of a sweep, which its schema has checked."""
        given = {name: value for name, value in (section or {}).items() if value is not None}
        if isinstance(given.get("memory"), str) and given["memory"] not in ("auto", "none"):
            given["memory"] = size(given["memory"])
        return cls(**given)


def demands(jobs: Sequence[Sequence[Task]], capacity: Capacity, wanted: Wanted) -> list[Demand]:
    """Of each job, in order. UserError naming every one that could never start, with the numbers."""
    sizes = _Sizes()
    found, problems = [], []
    for job in jobs:
        demand, problem = _demand(job, capacity, wanted, sizes)
        problem = problem or why_never(capacity, demand, job[0].run_spec.train.threads)
        if problem is not None:
            problems.append(f"{job[0].id}: {problem}")
        found.append(demand)
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return found


def _demand(job: Sequence[Task], capacity: Capacity, wanted: Wanted, sizes: _Sizes) -> tuple[Demand, str | None]:
    task = job[0]
    threads = task.run_spec.train.threads
    if not capacity.gpus:
        if wanted.memory == "none":
            memory = None
        else:
            memory = int(wanted.memory) if isinstance(wanted.memory, float) else _total(sizes.of(job, "cpu"))
        return Demand(task.workers, float(threads), driver=task.workers > 1, memory=memory), None
    share, problem = _share(job, capacity, wanted, sizes)
    return Demand(task.workers, float(threads), share, driver=True), problem


def _share(job: Sequence[Task], capacity: Capacity, wanted: Wanted, sizes: _Sizes) -> tuple[float, str | None]:
    """Of a GPU for each worker; and why even a whole one is too small."""
    workers = job[0].workers
    if wanted.gpu != "auto":
        share = float(wanted.gpu)
        return (
            share,
            None if workers == 1 or share >= 1 else f"{workers} workers x {share:g} GPU: NCCL wants a GPU for each; expected gpu 1",
        )
    need = float(wanted.memory) if isinstance(wanted.memory, float) else _total(sizes.of(job, "cuda"))
    if wanted.memory == "none" or need is None or capacity.gpu_memory is None:
        return 1.0, None
    if need > capacity.gpu_memory:
        problem = f"each worker needs {gigabytes(need)} (estimated); the smallest GPU has {gigabytes(capacity.gpu_memory)}"
        return 1.0, f"{problem} (--resources memory=none starts it all the same)"
    if workers > 1:
        return 1.0, None
    return [s for s in shares(MOST) if s == 1.0 or need * MARGIN <= s * capacity.gpu_memory][-1], None


def _total(memory: Memory | None) -> int | None:
    return None if memory is None else memory.total


def told(demand: Demand, capacity: Capacity) -> str:
    """One line on what a group of jobs gets."""
    from orchestrator.engines.capacity import at_once

    many = at_once(capacity, demand)
    memory = "" if demand.memory is None else f", {gigabytes(demand.memory)} each (estimated)"
    return f"{demand.told()}{memory}: at most {count(many, 'run')} at a time on {capacity.told()}"


class _Sizes:
    """Estimates of jobs; vocabularies are looked up once for each corpus."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[int, int] | None] = {}

    def of(self, job: Sequence[Task], device: str) -> Memory | None:
        """None where the vocabulary is neither prepared nor declared."""
        from orchestrator.sweeps import parameters

        task = job[0]
        spec = task.run_spec
        sizes = self._vocabularies(task)
        if sizes is None:
            return None
        return estimate(spec, parameters.params(spec, *sizes), sizes[1], workers=task.workers, device=device)

    def _vocabularies(self, task: Task) -> tuple[int, int] | None:
        from orchestrator.data import prepare, store
        from orchestrator.sweeps import parameters

        spec = task.run_spec
        name = spec.data.model_dump_json()
        if name not in self._sizes:
            manifest = prepare.manifest(spec.data, None if task.data_dir is None else Path(task.data_dir))
            key = None if manifest is None else manifest_key(manifest)
            ready = None if key is None else store.load(Path(task.cache_dir) / key[:16], key)
            self._sizes[name] = parameters.declared(spec) if ready is None else (ready.src_size, ready.tgt_size)
        return self._sizes[name]
