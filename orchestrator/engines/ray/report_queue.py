"""A queue for a Train run's reports to its Tune trial that does not raise when it is empty.

Tune polls the queue several times a second. Ray's own queue raises `Empty` in its actor, which the dashboard counts as a failed task: a
hundred in a healthy job. This one returns None, which Tune treats the same way.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.train._internal.session import get_session
from ray.util.queue import Empty, Queue, _QueueActor


class _QuietActor(_QueueActor):
    async def get(self, timeout: float | None = None) -> Any:
        try:
            return await super().get(timeout)
        except Empty:
            return None


class QuietQueue(Queue):
    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize = maxsize
        self.actor = ray.remote(_QuietActor).options(num_cpus=0).remote(maxsize)


def use_quiet_queue() -> None:
    """Replaces the queue of this Tune trial. Must be called before a `TuneReportCallback` is created."""
    session = get_session()
    if session is not None:
        session._inter_actor_queue = QuietQueue(1)
