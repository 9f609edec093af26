"""Prints a job's logs until it ends, across lost connections, and returns its exit code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ray.job_submission import JobDetails, JobStatus

from orchestrator.engines.ray.jobs.api import Client, is_active
from orchestrator.errors import UserError

PATIENCE = 120.0
"""Seconds without a connection after which following gives up; the job continues."""

INTERRUPTED = 130


def follow(client: Client, id: str, write: Callable[[str], None], *, patience: float = PATIENCE, pause: float = 1.0) -> JobDetails:
    """Writes the whole log, each character once, and returns the job when it has ended.

    UserError if it does not exist, or if the cluster is unreachable for `patience` seconds. KeyboardInterrupt is propagated.
    """
    written, stalled_since = 0, None
    while True:
        before = written
        written, complete = asyncio.run(_tail(client, id, write, written))
        stalled_since = None if complete or written > before else stalled_since or time.monotonic()
        waited = 0.0 if stalled_since is None else time.monotonic() - stalled_since
        try:
            job = client.job(id)
        except UserError:
            if waited >= patience:
                raise UserError(f"{id}: the cluster has been out of reach for {patience:.0f} s; the job may go on without us") from None
            time.sleep(pause)
            continue
        if job is None:
            raise UserError(f"{id}: the cluster has no such job")
        if not is_active(job) and (complete or waited >= patience):
            return job
        time.sleep(pause)


def exit_code(job: JobDetails) -> int:
    """The exit code of the job; 130 if it was stopped, 128 plus the signal that killed it, 1 if it never ran."""
    code = job.driver_exit_code
    if code is not None and job.status != JobStatus.STOPPED:
        return code if code >= 0 else 128 - code
    return {JobStatus.SUCCEEDED: 0, JobStatus.STOPPED: INTERRUPTED}.get(job.status, 1)


async def _tail(client: Client, id: str, write: Callable[[str], None], written: int) -> tuple[int, bool]:
    """Writes the log after its first `written` characters. Returns the number written so far, and whether the stream ended by itself.

    The stream starts at the first character at every call.
    """
    position = 0
    try:
        async for text in client.logs(id):
            new = text[max(0, written - position) :]
            position += len(text)
            if new:
                write(new)
                written = position
    except Exception:  # the network raises many types; the next request shows whether the cluster is reachable
        return written, False
    return written, True
