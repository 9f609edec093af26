"""One job per sweep: a submission joins the sweep's job if one is active or has succeeded, else it starts a new attempt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orchestrator.engines.ray.jobs.job import SUCCEEDED, Job, JobClient, JobExists
from orchestrator.errors import UserError


@dataclass(frozen=True)
class Joined:
    """The sweep's job. new: this call started it."""

    id: str
    new: bool


def sweep_id(key: str) -> str:
    """The id of a sweep's first attempt; later ones have the suffix -2, -3, ..."""
    return f"sweep-{key[:16]}"


def attempt(id: str, base: str) -> int | None:
    """The number of a job among the attempts of `base`; None if it is not one of them."""
    if id == base:
        return 1
    match = re.fullmatch(re.escape(base) + r"-([2-9]|[1-9][0-9]{1,5})", id)
    return None if match is None else int(match[1])


def latest(jobs: Iterable[Job], base: str) -> tuple[int, Job] | None:
    """The number of the sweep's last attempt, and its job."""
    numbered = [(number, job) for job in jobs if (number := attempt(job.id, base)) is not None]
    return max(numbered, key=lambda pair: pair[0], default=None)


def join(client: JobClient, base: str, submit: Callable[[str], None], *, again: bool = False) -> Joined:
    """Joins the job that is active or has succeeded, else starts a new attempt by `submit`, which raises JobExists if another submission
    came first.

    again: start a new attempt even after one that has succeeded.
    """
    last = latest(client.jobs(), base)
    for _ in range(100):
        if last is not None and (last[1].active or (last[1].status == SUCCEEDED and not again)):
            return Joined(last[1].id, new=False)
        number = 1 if last is None else last[0] + 1
        id = base if number == 1 else f"{base}-{number}"
        try:
            submit(id)
            return Joined(id, new=True)
        except JobExists:
            job = client.job(id)
            last = None if job is None else (number, job)
            again = False  # the other submission's attempt is as new as ours would have been
    raise UserError(f"{base}: the cluster says that every attempt exists and shows none of them")
