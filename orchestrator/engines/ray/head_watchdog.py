"""Ends a driver whose cluster has lost its head or its only node. Ray would wait for ever or end with a stack trace."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.engines.ray.address import is_listening, is_refused

HEAD_WAIT = "NMT_HEAD_WAIT_S"
"""Environment variable: seconds for which the head may be unreachable before the driver ends."""

HEAD_LOST = 5
"""Exit code of a driver that lost its cluster; the same command on a new cluster resumes."""


@contextmanager
def head_watchdog(address: str, node: str | None = None) -> Iterator[None]:
    """Context: this process exits with one line and code 5 if the head at `address` (host:port) is unreachable for too long.

    node: the address of the only node of a Ray that was started here. It cannot come back, so that the process exits as soon as it is gone.
    A thread ends the process at once, because the main thread may be blocked in a call of Ray. Durable files are on disk already.
    """
    closed = threading.Event()
    limit = float(os.environ.get(HEAD_WAIT, 30.0))
    threading.Thread(target=_watch, args=(address, node, limit, closed), name="head-watchdog", daemon=True).start()
    try:
        yield
    finally:
        closed.set()


def _watch(address: str, node: str | None, limit: float, closed: threading.Event) -> None:
    last_answer = time.monotonic()
    while not closed.wait(min(2.0, limit / 4)):
        if node is not None and (is_refused(node) or is_refused(address)) and not closed.is_set():
            _exit("the Ray of this sweep has ended (was it killed?); the same command resumes the sweep")
        if is_listening(address):
            last_answer = time.monotonic()
        elif time.monotonic() - last_answer >= limit and not closed.is_set():
            _exit(f"the cluster's head ({address}) has not answered for {limit:g} s; the same command on a new cluster resumes it")


def _exit(line: str) -> None:
    print(f"error: {line}", file=sys.stderr, flush=True)
    os._exit(HEAD_LOST)
