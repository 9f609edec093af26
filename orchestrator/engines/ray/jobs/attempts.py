"""One job per sweep: a submission joins the sweep's job if one is active or has succeeded, else it starts a new attempt."""

from __future__ import annotations

import re
from collections.abc import Callable

from ray.job_submission import JobDetails, JobStatus

from orchestrator.engines.ray.jobs.api import Client, JobExists, is_active
from orchestrator.errors import UserError


def join(client: Client, base: str, submit: Callable[[str], None], *, again: bool = False) -> tuple[str, bool]:
    """Joins the job that is active or has succeeded, else starts a new attempt (`base`, `base`-2, ...) by `submit`, which raises JobExists
    if another submission came first. Returns the job's id and whether this call started it.

    again: start a new attempt even after one that has succeeded.
    """
    for _ in range(10):
        number, job = latest(client.jobs(), base)
        if job is not None and (is_active(job) or (job.status == JobStatus.SUCCEEDED and not again)):
            return str(job.submission_id), False
        id = base if number == 0 else f"{base}-{number + 1}"
        try:
            submit(id)
            return id, True
        except JobExists:
            again = False  # the other submission's attempt is as new as ours would have been
    raise UserError(f"{base}: the cluster says that every attempt exists and shows none of them")


def latest(jobs: list[JobDetails], base: str) -> tuple[int, JobDetails | None]:
    """The number of the sweep's last attempt, and its job; 0 and None if there is none."""
    numbered: list[tuple[int, JobDetails | None]] = [(0, None)]
    for job in jobs:
        if match := re.fullmatch(re.escape(base) + r"(?:-([1-9][0-9]{0,5}))?", job.submission_id or ""):
            numbered.append((int(match[1] or 1), job))
    return max(numbered, key=lambda pair: pair[0])
