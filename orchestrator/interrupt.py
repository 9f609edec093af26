"""Ctrl-C and SIGTERM end a training at the next step, after a checkpoint; a second one ends it at once.

Processes that no signal reaches (workers of a sweep, on this machine or another) look for a file instead: RESULTS/sweeps/NAME.stop.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_requested = threading.Event()
_watched: list[Path] = []


def requested() -> bool:
    """Asked by the training loop after every step."""
    return _requested.is_set() or any(path.exists() for path in _watched)


def request() -> None:
    """As the first signal does within `listening`."""
    _requested.set()


def forget() -> None:
    """What was requested of this process counts no more."""
    _requested.clear()


def stop_file(results: Path, sweep: str) -> Path:
    """Where it is, the workers of a sweep save and end."""
    return results / "sweeps" / f"{sweep}.stop"


def watch(path: Path) -> None:
    """From now on this process is asked to end where `path` is; another file that it watched counts no more."""
    _watched[:] = [path]


@contextmanager
def passing_on(path: Path) -> Iterator[None]:
    """Within: the first signal makes the file `path`, which is gone again at the end; the second raises KeyboardInterrupt."""
    path.unlink(missing_ok=True)
    try:
        with _handling(path.exists, path.touch):
            yield
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def listening() -> Iterator[None]:
    """Within: the first signal is remembered, the second raises KeyboardInterrupt. Outside the main thread nothing changes."""
    try:
        with _handling(_requested.is_set, _requested.set):
            yield
    finally:
        _requested.clear()


@contextmanager
def _handling(known: Callable[[], bool], first: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if known():
            raise KeyboardInterrupt
        first()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
