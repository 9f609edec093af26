"""Worker processes of the local engine, side by side on this machine: each lives for the whole sweep and runs one task at a time."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import signal
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from orchestrator import interrupt
from orchestrator.engines import pool_worker
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.task import Task

SPAWN = multiprocessing.get_context("spawn")  # CUDA does not survive a fork

EXIT_SECONDS = 10.0
"""Idle workers that take longer to exit are killed."""


class Worker:
    """A process with the job that it works on. Messages are JSON, as `pool_worker` describes them."""

    def __init__(self) -> None:
        self.job = deque[Task]()
        self.connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=pool_worker.main, args=(theirs,), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, pool_worker.SIGNALS)  # inherited until the worker can handle them
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def start_next(self) -> None:
        """Starts the next task of the job."""
        self.send({"task": self.job[0].to_json()})

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the process has died, as the next `receive` tells
            self.connection.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any]:
        """Returns the next message; the failure of the current task if the process has died."""
        try:
            message: dict[str, Any] = json.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.process.join()
            return {"ended": {"failure": f"its process {_cause(self.process.exitcode)}", "last": True}}
        return message

    def end(self, *, kill: bool) -> None:
        self.connection.close()
        if not kill:
            self.process.join(EXIT_SECONDS)
        self.process.kill()
        self.process.join()
        self.process.close()


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exited with code {code}"
    memory = ", as the system does when memory is exhausted" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{memory}"


class Pool:
    """The workers of a sweep. They are started when first needed."""

    def __init__(self) -> None:
        self.idle: list[Worker] = []
        self.busy: list[Worker] = []

    def run(self, jobs: Sequence[Sequence[Task]], size: int, asha: Asha | None, metric: str, stop: Path) -> dict[str, str]:
        """Runs every job, at most `size` at a time. Returns the failures (task name -> reason); a failure does not end the other tasks.

        At the first Ctrl-C or SIGTERM, or once the file `stop` exists, every worker saves and ends its task, then KeyboardInterrupt is
        raised; at the second it is raised at once.
        """
        waiting, failures = deque(deque(job) for job in jobs), dict[str, str]()
        with interrupt.passing_on(stop):
            while (waiting and not stop.exists()) or self.busy:
                while waiting and len(self.busy) < size and not stop.exists():
                    self._start(waiting.popleft())
                ready = wait([worker.connection for worker in self.busy])
                for worker in [worker for worker in self.busy if worker.connection in ready]:
                    message = worker.receive()
                    if "rung" in message:
                        rung = message["rung"]
                        worker.send({"continue": asha is None or asha.decide(worker.job[0].name, rung["rung"], rung[metric])})
                    else:
                        self._ended(worker, message["ended"], waiting, failures, stop)
            if stop.exists():
                raise KeyboardInterrupt
        return failures

    def _start(self, job: deque[Task]) -> None:
        while self.idle and not self.idle[-1].process.is_alive():
            self.idle.pop().end(kill=True)
        worker = self.idle.pop() if self.idle else Worker()
        self.busy.append(worker)
        worker.job = job
        worker.start_next()

    def _ended(self, worker: Worker, ended: dict[str, Any], waiting: deque[deque[Task]], failures: dict[str, str], stop: Path) -> None:
        """Records how the worker's task has ended, and starts the next one of its job."""
        task = worker.job.popleft()
        if ended["failure"] is not None and not stop.exists():
            failures[task.name] = ended["failure"]
        if worker.job and not ended["last"]:
            worker.start_next()
            return
        self.busy.remove(worker)
        if worker.job:
            waiting.appendleft(worker.job)
        if ended["last"]:
            worker.end(kill=False)
        else:
            self.idle.append(worker)

    def close(self) -> None:
        """Ends all workers, those with a task at once."""
        for worker in self.busy:
            worker.end(kill=True)
        for worker in self.idle:
            worker.connection.close()
        for worker in self.idle:
            worker.end(kill=False)
        self.busy, self.idle = [], []
