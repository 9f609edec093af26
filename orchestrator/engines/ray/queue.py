"""The jobs that Train runs share: an actor hands them out and decides at rungs."""

import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.sweeps.asha import Asha, goes_on

ATTEMPTS = 4  # how often workers begin a job without getting further before it has failed
WAIT = -1  # in place of a job's number: none waits now
IDLE_SECONDS = 30.0  # after which a slot without a job ends while others run, since one of them may wait for its room

Job = list[dict[str, Any]]


class JobQueue:
    """Hands out jobs in order. A slot is a Train run: its workers take one job after the other, and start anew if one of them dies.

    A job is a list of tasks as JSON. running: slot -> the number of its job. stop: once this file exists, the slots end.
    """

    def __init__(self) -> None:
        self.jobs, self.waiting, self.running, self.closed = list[Job](), deque[int](), dict[str, int](), False
        self.attempts, self.done, self.reasons, self.idle = Counter[int](), set[int](), dict[int, str](), dict[str, float]()
        self.steps, self.workers = dict[int, int](), dict[str, int]()
        self.asha: Asha | None = None
        self.stop = Path()

    def add(self, jobs: Sequence[Job], asha: Asha | None, stop: Path) -> None:
        """Adds the jobs of a sweep, when those of the last have ended."""
        self.waiting = deque(range(len(self.jobs), len(self.jobs) + len(jobs)))
        self.running.clear()  # of slots that have failed
        self.jobs, self.asha, self.stop = [*self.jobs, *jobs], asha, stop

    def close(self) -> None:
        """Ends the slots."""
        self.closed = True

    def take(self, slot: str, done: int | None, workers: int = 1) -> int | None:
        """The number of the slot's next job: again the one that it has not ended, while attempts are left. WAIT: none; None: the slot ends.

        done: the number of the job that the slot's workers have ended; None for new workers, and after WAIT. workers: how many the slot
        has; another number than before shows a change of the cluster, which is no attempt.
        """
        same = self.workers.setdefault(slot, workers) == workers
        self.workers[slot] = workers
        number = self.running.pop(slot, None)
        if done is not None:
            self.done.add(done)
        if self.closed or self.stop.exists():
            return None
        if number is None or number == done or self.attempts[number] == ATTEMPTS:
            if not self.waiting:
                since = self.idle.setdefault(slot, time.monotonic())
                return None if self.running and time.monotonic() - since > IDLE_SECONDS else WAIT
            number = self.waiting.popleft()
        self.idle.pop(slot, None)
        self.running[slot] = number
        self.attempts[number] += same
        return number

    def job(self, number: int) -> Job:
        return self.jobs[number]

    def reached(self, number: int, step: int) -> None:
        """A job reports an update. One that it had not reached before shows that the last end was the cluster's, not its own."""
        if step > self.steps.get(number, 0):
            self.steps[number], self.attempts[number] = step, 1

    def decide(self, rung: dict[str, Any]) -> bool:
        """Returns whether a run goes on after a rung. rung: its name and metrics, as `training.metrics.RungReporter` sends them."""
        return goes_on(self.asha, rung)

    def leave(self, slot: str, *, drained: bool = False) -> None:
        """The slot's workers have saved and end. drained: a node is taken away; this is no failure, and any slot may take the job."""
        number = self.running.pop(slot)
        if drained:
            self.attempts[number] -= 1
            self.waiting.appendleft(number)

    def explain(self, number: int, reason: str) -> None:
        """Tells why an attempt at a job fails. The first worker names the cause; the others fail because of it."""
        self.reasons.setdefault(number, reason)

    def left(self, failed: Sequence[str] = ()) -> int:
        """Number of jobs that wait (none after a stop) or run. failed: ends of the names of slots that have failed, and left their job."""
        return (0 if self.stop.exists() else len(self.waiting)) + sum(not slot.endswith(tuple(failed)) for slot in self.running)

    def outcome(self, jobs: int) -> tuple[dict[int, str], Asha | None]:
        """The last `jobs` jobs that were not done, numbered from 0, with the reason ("" where none is known), and the decisions."""
        first = len(self.jobs) - jobs
        return {n - first: self.reasons.get(n, "") for n in range(first, len(self.jobs)) if n not in self.done}, self.asha
