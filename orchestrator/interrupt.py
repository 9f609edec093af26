"""Ctrl-C and SIGTERM end a training at the next step, after a checkpoint; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_requested = threading.Event()


def requested() -> bool:
    """Asked by the training loop after every step."""
    return _requested.is_set()


@contextmanager
def listening() -> Iterator[None]:
    """Within: the first signal is remembered, the second raises KeyboardInterrupt. Outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if _requested.is_set():
            raise KeyboardInterrupt
        _requested.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        _requested.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
