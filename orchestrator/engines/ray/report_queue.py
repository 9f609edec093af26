"""The way of a Train run's reports to its Tune trial, without failures that are none.

Tune asks Ray's queue several times a second for a report. Each time there is none, Ray's queue raises `Empty` in its actor, and the
dashboard counts a failed task: a hundred in a healthy job. This queue answers None, which Tune takes for the same.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.train._internal.session import get_session
from ray.util.queue import Empty, Queue, _QueueActor


class _Quiet(_QueueActor):
    async def get(self, timeout: float | None = None) -> Any:
        try:
            return await super().get(timeout)
        except Empty:
            return None


class QuietQueue(Queue):
    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize = maxsize
        self.actor = ray.remote(_Quiet).options(num_cpus=0).remote(maxsize)


def report_quietly() -> None:
    """In a Tune trial, before a `TuneReportCallback` is made: reports come by a quiet queue."""
    session = get_session()
    if session is not None:
        session._inter_actor_queue = QuietQueue(1)
