"""Simultaneous runs of the local engine on this machine, each in its own process."""

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orchestrator import interrupt
from orchestrator.sweeps.asha import Asha, goes_on
from orchestrator.sweeps.row import run_unless_stopped
from orchestrator.sweeps.task import Task
from orchestrator.training.metrics import RungReporter
from orchestrator.training.runtime import Runtime, best_device

SERVER = multiprocessing.get_context("forkserver")
"""Its processes are forks of a process that has imported torch but not started CUDA, which does not survive a fork."""


def run(jobs: Sequence[Sequence[Task]], size: int, asha: Asha | None, stop: Path) -> dict[str, str]:
    """Runs every job, at most `size` at a time. Returns the failures (task name -> reason); a failure does not end the other tasks.

    At the first Ctrl-C or SIGTERM, or once the file `stop` exists, every process saves and ends its task, then KeyboardInterrupt is
    raised; at the second it is raised at once.
    """
    SERVER.set_forkserver_preload(["__main__", __name__])
    failures, deciding = dict[str, str](), threading.Lock()

    def decide(rung: dict[str, Any]) -> bool:
        with deciding:
            return goes_on(asha, rung)

    def run_job(job: Sequence[Task]) -> None:
        for task in job:
            if stop.exists():
                return
            failure = _in_process(task, decide)
            if failure is not None and not stop.exists():
                failures[task.name] = failure

    with interrupt.passing_on(stop), ThreadPoolExecutor(size) as threads:  # a thread waits for each process
        try:
            for ended in [threads.submit(run_job, job) for job in jobs]:
                ended.result()
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            with contextlib.suppress(OSError):  # such as a full disk
                stop.touch()  # no thread starts another task of its job
            for process in SERVER.active_children():
                process.kill()
            raise
        if stop.exists():
            raise KeyboardInterrupt
    return failures


def _in_process(task: Task, decide: Callable[[dict[str, Any]], bool]) -> str | None:
    """Runs a task in a new process. Returns why it failed, else None. decide: as of `RungReporter`."""
    ours, theirs = SERVER.Pipe()
    process = SERVER.Process(target=main, args=(json.dumps(task.to_json()), dict(os.environ), theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        while "rung" in (message := json.loads(ours.recv_bytes())):
            try:
                answer = decide(message["rung"])
            except Exception as error:  # such as a full disk; the process waits for an answer
                process.kill()
                process.join()
                return f"{type(error).__name__}: {error}"
            ours.send(answer)
        process.join()
        return message["failure"]
    except (EOFError, OSError):
        process.join()
        return f"its process {_cause(process.exitcode)}"


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exited with code {code}"
    memory = ", as the system does when memory is exhausted" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{memory}"


def main(task: str, environment: dict[str, str], connection: Connection) -> None:
    """The process of a task, which ends with its parent. The first SIGINT or SIGTERM makes the task save and end.

    At each rung it sends {"rung": metrics} and receives whether to go on; at the end it sends {"failure": reason or null}.
    """
    os.environ.clear()
    os.environ.update(environment)  # the server has that of its start
    threading.Thread(target=_end_with_parent, name="parent-watchdog", daemon=True).start()

    def decide(rung: dict[str, Any]) -> bool:
        connection.send_bytes(json.dumps({"rung": rung}).encode())
        return bool(connection.recv())

    failure = None
    with contextlib.suppress(KeyboardInterrupt), interrupt.listening():
        try:
            given = Task.of(json.loads(task))
            if not run_unless_stopped(given, Runtime(device=best_device()), [RungReporter(given.name, decide)]):
                failure = "its process was told to stop by a signal; the same command resumes it"
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        connection.send_bytes(json.dumps({"failure": failure}).encode())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
