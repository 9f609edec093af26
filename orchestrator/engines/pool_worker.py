"""A worker process of the local engine (`engines.pool`).

It receives {"task": ..}, as `Task.to_json` gives it. At each rung it sends {"rung": metrics} and receives {"continue": bool}. At the
task's end it sends {"ended": {"failure": reason or null, "last": whether this process can run no other task}}. It ends with its parent.
"""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

import torch

from orchestrator import interrupt
from orchestrator.engines.worker import run_task
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Runtime, best_device

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(connection: Connection) -> None:
    """Runs tasks until the parent closes `connection`. The first SIGINT or SIGTERM makes the current task save and end."""
    threading.Thread(target=_end_with_parent, name="parent-watchdog", daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt, EOFError), interrupt.listening():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # blocked by the parent while this process could not handle them
        while True:
            task = Task.of(json.loads(connection.recv_bytes())["task"])
            ended = _run(task, connection)
            interrupt.forget()
            connection.send_bytes(json.dumps({"ended": ended}).encode())


def _run(task: Task, connection: Connection) -> dict[str, Any]:
    """Runs one task. Returns how it ended."""

    def decide(metrics: dict[str, Any]) -> bool:
        rung = {name: value for name, value in metrics.items() if isinstance(value, (int, float))}
        connection.send_bytes(json.dumps({"rung": rung}).encode())
        return bool(json.loads(connection.recv_bytes())["continue"])

    failure = None
    try:
        if not run_task(task, Runtime(device=best_device()), decide=decide):
            failure = "its process was told to stop by a signal; the same command resumes it"
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    return {"failure": failure, "last": not _usable()}


def _usable() -> bool:
    """Returns memory of the GPU to the other processes. False if an error has left the GPU's context unusable."""
    gc.collect()
    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
