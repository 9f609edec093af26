"""Graceful shutdown: the first Ctrl-C or SIGTERM ends a training after the next step with a checkpoint, the second ends it at once.

Workers of a sweep that no signal reaches, on this machine or another, poll the file RESULTS/sweeps/NAME.stop instead.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_requested = threading.Event()
_watched: list[Path] = []


def requested() -> bool:
    """Returns whether the training should end. The training loop checks it after every step."""
    return _requested.is_set() or any(path.exists() for path in _watched)


def request() -> None:
    """Requests the end of the training, like the first signal within `listening`."""
    _requested.set()


def forget() -> None:
    """Discards an earlier request to this process."""
    _requested.clear()


def stop_file(results: Path, sweep: str) -> Path:
    """Returns the path of the file that makes the workers of a sweep save and exit."""
    return results / "sweeps" / f"{sweep}.stop"


def watch(path: Path) -> None:
    """Makes this process stop once `path` exists. Replaces the file it watched before."""
    _watched[:] = [path]


@contextmanager
def passing_on(path: Path) -> Iterator[None]:
    """Context: the first signal creates the file `path`, which is removed on exit; the second raises KeyboardInterrupt."""
    path.unlink(missing_ok=True)
    try:
        with _handling(path.exists, path.touch):
            yield
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def listening() -> Iterator[None]:
    """Context: the first signal is recorded, the second raises KeyboardInterrupt. No effect outside the main thread."""
    try:
        with _handling(_requested.is_set, _requested.set):
            yield
    finally:
        _requested.clear()


@contextmanager
def raising() -> Iterator[None]:
    """Context: a signal raises KeyboardInterrupt, so that temporary files are removed. By default SIGTERM ends a process at once."""
    with _handling(lambda: True, lambda: None):
        yield


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
