"""A job's logs on this terminal until it ends, through lost connections; then its exit code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol

from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.engines.ray.jobs.api import Job

PATIENCE = 120.0
"""Seconds without the cluster after which following gives up; the job goes on."""

INTERRUPTED = 130


class Cluster(Protocol):
    def job(self, id: str) -> Job | None: ...

    def logs(self, id: str) -> AsyncIterator[str]: ...


def follow(cluster: Cluster, id: str, write: Callable[[str], None], *, patience: float = PATIENCE, pause: float = 1.0) -> Job:
    """Writes the logs from their first character, each once, and returns the job when it has ended.

    UserError where it does not exist, or where the cluster is out of reach for `patience` seconds. KeyboardInterrupt passes.
    """
    seen, since = 0, None
    while True:
        before = seen
        seen, whole = asyncio.run(_tail(cluster, id, write, seen))
        since = None if whole or seen > before else since or time.monotonic()
        waited = 0.0 if since is None else time.monotonic() - since
        try:
            job = cluster.job(id)
        except UserError:
            if waited >= patience:
                raise UserError(f"{id}: the cluster has been out of reach for {patience:.0f} s; the job may go on without us") from None
            time.sleep(pause)
            continue
        if job is None:
            raise UserError(f"{id}: the cluster has no such job")
        if not job.live and (whole or waited >= patience):
            return job
        time.sleep(pause)


def exit_code(job: Job) -> int:
    """The job's own; 130 where it was stopped, 1 where it never came to run."""
    if job.exit_code is not None and job.status != "STOPPED":
        return job.exit_code
    return {"SUCCEEDED": 0, "STOPPED": INTERRUPTED}.get(job.status, 1)


async def _tail(cluster: Cluster, id: str, write: Callable[[str], None], seen: int) -> tuple[int, bool]:
    """Writes what comes after the first `seen` characters -> characters seen, and whether the stream came to its own end.

    It begins anew at every call.
    """
    position = 0
    try:
        async for text in cluster.logs(id):
            fresh = text[max(0, seen - position) :]
            position += len(text)
            if fresh:
                write(fresh)
                seen = position
    except Exception:  # of the network, of many kinds; whether the cluster is there at all the next request tells
        return seen, False
    return seen, True
