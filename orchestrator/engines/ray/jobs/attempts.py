"""One sweep, one job: which attempt a submission is, or whose it joins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.engines.ray.jobs.api import Job

PREFIX = "sweep-"


class Cluster(Protocol):
    def jobs(self) -> list[Job]: ...

    def job(self, id: str) -> Job | None: ...


@dataclass(frozen=True)
class Joined:
    """A job that stands for the sweep. `new`: this call started it; else it ran or had succeeded before."""

    id: str
    new: bool


def sweep_id(key: str) -> str:
    """The name of a sweep's first attempt; later ones have -2, -3, ... after it."""
    return f"{PREFIX}{key[:16]}"


def attempt(id: str, base: str) -> int | None:
    """Which attempt of `base` the job is; None where it is none."""
    if id == base:
        return 1
    found = re.fullmatch(re.escape(base) + r"-([2-9]|[1-9][0-9]{1,5})", id)
    return None if found is None else int(found[1])


def latest(jobs: Iterable[Job], base: str) -> tuple[int, Job] | None:
    """The sweep's last attempt."""
    numbered = [(number, job) for job in jobs if (number := attempt(job.id, base)) is not None]
    return max(numbered, key=lambda pair: pair[0], default=None)


def join(cluster: Cluster, base: str, submit: Callable[[str], None], *, again: bool = False) -> Joined:
    """The sweep's job: the one that runs or has succeeded, else a new attempt by `submit`, whose Taken means that another was faster.

    again: a new attempt after one that has succeeded, too.
    """
    from orchestrator.engines.ray.jobs.api import DONE, Taken

    last = latest(cluster.jobs(), base)
    for _ in range(100):
        if last is not None and (last[1].live or (last[1].status == DONE and not again)):
            return Joined(last[1].id, new=False)
        number = 1 if last is None else last[0] + 1
        id = base if number == 1 else f"{base}-{number}"
        try:
            submit(id)
            return Joined(id, new=True)
        except Taken:
            job = cluster.job(id)
            last = None if job is None else (number, job)
            again = False  # the one that was faster is as new as ours would have been
    raise UserError(f"{base}: the cluster says that every attempt exists and shows none of them")
