"""Device time that a sweep has used: each process that works for it keeps a file of its own, so that nothing is lost with a process.

RESULTS/sweeps/SWEEP.used/HOST-PID-START.json: {"device_seconds", "devices": now at work, "updated": epoch seconds, "open"}. A process at
work writes its file every HEARTBEAT seconds; a file that is left open is taken to have gone on for two of them at most. Time between
runs, and that in which processes and Ray start, is not counted: it is no run's.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.files import atomic

HEARTBEAT = 2.0
"""Seconds between two writes of a process at work."""


def folder(results: Path, sweep: str) -> Path:
    return results / "sweeps" / f"{sweep}.used"


def used(results: Path, sweep: str, now: float | None = None) -> float:
    """Device-seconds so far, of every process that worked or works for the sweep: an upper bound where one was killed."""
    now = time.time() if now is None else now
    total = 0.0
    for record in _records(results, sweep):
        since = min(max(0.0, now - record["updated"]), 2 * HEARTBEAT) if record["open"] else 0.0
        total += record["device_seconds"] + since * record["devices"]
    return total


def working(results: Path, sweep: str, now: float | None = None) -> int:
    """Devices at work for the sweep at the moment."""
    now = time.time() if now is None else now
    return sum(r["devices"] for r in _records(results, sweep) if r["open"] and now - r["updated"] < 2 * HEARTBEAT)


def _records(results: Path, sweep: str) -> Iterator[dict[str, Any]]:
    place = folder(results, sweep)
    for path in place.glob("*.json") if place.is_dir() else []:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(path.read_text(encoding="utf-8"))
            yield {name: record[name] + 0 for name in ("device_seconds", "devices", "updated", "open")}


class _Clock:
    """Of one sweep in this process: runs that go on at once in it count once, with the most devices of them."""

    def __init__(self, place: Path) -> None:
        self.path = place / f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}.json"
        self.running: list[int] = []
        self.seconds = 0.0
        self.since = time.monotonic()
        self.lock = threading.Lock()
        self.ended = threading.Event()

    def enter(self, devices: int) -> None:
        with self.lock:
            self._count()
            self.running.append(devices)
            self._write()
            if len(self.running) == 1:
                self.ended.clear()
                threading.Thread(target=self._beat, name="usage", daemon=True).start()

    def leave(self, devices: int) -> None:
        with self.lock:
            self._count()
            self.running.remove(devices)
            if not self.running:
                self.ended.set()
            with contextlib.suppress(OSError):  # a run that ends for want of space must be able to say so
                self._write()

    def _beat(self) -> None:
        while not self.ended.wait(HEARTBEAT):
            with self.lock:
                if self.running:
                    self._count()
                    with contextlib.suppress(OSError):
                        self._write()

    def _count(self) -> None:
        now = time.monotonic()
        self.seconds += max(self.running, default=0) * (now - self.since)
        self.since = now

    def _write(self) -> None:
        devices = max(self.running, default=0)
        record = {"device_seconds": round(self.seconds, 3), "devices": devices, "updated": time.time(), "open": bool(self.running)}
        atomic.write_json(self.path, record)


_clocks: dict[tuple[Path, int], _Clock] = {}


@contextmanager
def counted(results: Path, sweep: str | None, devices: int) -> Iterator[None]:
    """Within, `devices` of this process (and of those it leads) are at work for the sweep."""
    if sweep is None:
        yield
        return
    place = folder(results, sweep)
    clock = _clocks.setdefault((place, os.getpid()), _Clock(place))
    clock.enter(devices)
    try:
        yield
    finally:
        clock.leave(devices)
