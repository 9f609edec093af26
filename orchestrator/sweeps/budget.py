"""The device-hour budget of a sweep: measures the usage of its processes, and ends the sweep at the budget.

Each process that works for a sweep writes its own file, so that no usage is lost with a process:
RESULTS/sweeps/SWEEP.used/HOST-PID-START.json holds {"device_seconds", "devices": in use now, "updated": Unix seconds, "open"}. An active
process updates its file every HEARTBEAT seconds; a file left open counts for at most two more heartbeats. Time between runs and the
start-up of processes and of Ray are not counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.ledger import object_store
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.training.runtime import best_device

T = TypeVar("T")

HEARTBEAT = 2.0
"""Seconds between two writes of an active process."""

RESERVE = 60.0
"""Runs are requested to save when the budget has this many seconds left for all active devices, or a tenth of it if that is less.
What cannot be interrupted in that time (decoding) is killed, and starts again when the sweep is resumed."""

POLL = 0.2


def usage_folder(results: Path, sweep: str) -> Path:
    return results / "sweeps" / f"{sweep}.used"


def used_seconds(results: Path, sweep: str, now: float | None = None) -> float:
    """Device-seconds used so far by all processes of the sweep; an upper bound if one was killed."""
    now = time.time() if now is None else now
    total = 0.0
    for record in _records(results, sweep):
        since = min(max(0.0, now - record["updated"]), 2 * HEARTBEAT) if record["open"] else 0.0
        total += record["device_seconds"] + since * record["devices"]
    return total


def active_devices(results: Path, sweep: str, now: float | None = None) -> int:
    """Number of devices that work for the sweep now."""
    now = time.time() if now is None else now
    return sum(r["devices"] for r in _records(results, sweep) if r["open"] and now - r["updated"] < 2 * HEARTBEAT)


def _records(results: Path, sweep: str) -> Iterator[dict[str, Any]]:
    for path in usage_folder(results, sweep).glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(path.read_text(encoding="utf-8"))
            yield {name: record[name] + 0 for name in ("device_seconds", "devices", "updated", "open")}


def _remove_temporary_files(folder: Path) -> None:
    """Removes temporary files of processes of this host that were killed while they wrote; those of live processes stay."""
    host = f".{socket.gethostname()}-"
    for path in folder.glob("*.tmp"):
        pid = path.name.removeprefix(host).split("-")[0]
        if path.name.startswith(host) and pid.isdigit() and not _exists(int(pid)):
            path.unlink(missing_ok=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return True


class _UsageFile:
    """Usage of one sweep by this process. Concurrent runs count once, with the largest number of devices."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}.json"
        _remove_temporary_files(folder)
        self.running: list[int] = []
        self.seconds = 0.0
        self.updated = time.monotonic()
        self.lock = threading.Lock()
        self.closed = threading.Event()

    def enter(self, devices: int) -> None:
        with self.lock:
            self._count()
            self.running.append(devices)
            self._write()
            if len(self.running) == 1:
                self.closed.clear()
                threading.Thread(target=self._beat, name="usage", daemon=True).start()

    def leave(self, devices: int) -> None:
        with self.lock:
            self._count()
            self.running.remove(devices)
            if not self.running:
                self.closed.set()
            with contextlib.suppress(OSError):  # a run that fails on a full disk must still report that
                self._write()

    def _beat(self) -> None:
        while not self.closed.wait(HEARTBEAT):
            with self.lock, contextlib.suppress(OSError):
                if self.running:
                    self._count()
                    self._write()

    def _count(self) -> None:
        now = time.monotonic()
        self.seconds += max(self.running, default=0) * (now - self.updated)
        self.updated = now

    def _write(self) -> None:
        devices = max(self.running, default=0)
        record = {"device_seconds": round(self.seconds, 3), "devices": devices, "updated": time.time(), "open": bool(self.running)}
        atomic.write_json(self.path, record)


_usage_files: dict[tuple[Path, int], _UsageFile] = {}


@contextmanager
def record_usage(results: Path, sweep: str | None, devices: int) -> Iterator[None]:
    """Context: records `devices`, of this process and its workers, as working for the sweep."""
    if sweep is None:
        yield
        return
    folder = usage_folder(results, sweep)
    file = _usage_files.setdefault((folder, os.getpid()), _UsageFile(folder))
    file.enter(devices)
    try:
        yield
    finally:
        file.leave(devices)


class BudgetExceeded(KeyboardInterrupt):
    """The sweep was ended at its budget."""


class Budget:
    """A thread that monitors the device-hours of `sweeps` together.

    Near the budget it calls `save` repeatedly, which requests the runs to save and end; at the budget it calls `stop` once, which ends them
    immediately; `reset` undoes `save` at the end. margin: seconds that `stop` takes.
    """

    def __init__(
        self,
        results: Path,
        sweeps: Sequence[str],
        hours: float,
        unit: str,
        *,
        save: Callable[[], object],
        stop: Callable[[], object],
        reset: Callable[[], object],
        margin: float,
        poll: float = POLL,
    ) -> None:
        self.results, self.sweeps, self.hours, self.unit, self.margin = results, list(sweeps), hours, unit, margin
        self._save, self._stop, self._reset, self._poll = save, stop, reset, poll
        self.reached = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="budget", daemon=True)

    def used_hours(self) -> float:
        return sum(used_seconds(self.results, sweep) for sweep in self.sweeps) / 3600

    def exhausted(self) -> bool:
        """Returns whether too little is left to start at all."""
        return self.used_hours() >= self.hours - min(0.1 * self.hours, RESERVE / 3600)

    def message(self) -> str:
        used = f"{self.used_hours():.4g} of {self.hours:g} {self.unit} used"
        return f"stopped at the cap: {used}; the same command with a larger --max-gpu-hours resumes"

    def __enter__(self) -> Budget:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join(timeout=5)
        self._reset()

    def _watch(self) -> None:
        stopped = False
        while not self._closed.wait(self._poll):
            action = self.action()
            if action != "continue":
                self.reached = True
                self._save()
            if action == "stop" and not stopped:
                stopped = True
                self._stop()

    def action(self) -> Literal["continue", "save", "stop"]:
        """What the sweep should do now."""
        devices = max(1, sum(active_devices(self.results, sweep) for sweep in self.sweeps))
        left = (self.hours - self.used_hours()) * 3600
        if left <= min(0.05 * self.hours * 3600, devices * self.margin):
            return "stop"
        return "save" if left <= min(0.1 * self.hours * 3600, devices * RESERVE) else "continue"


def within_budget(options: ExecutionOptions, work: Callable[[], T]) -> T:
    """Returns the result of `work`. BudgetExceeded if the sweep's budget ends it, or leaves too little to start."""
    if options.max_hours is None:
        return work()
    budget = budget_of(options, options.max_hours)
    if budget.exhausted():
        raise BudgetExceeded(budget.message())
    try:
        with budget:
            return work()
    except KeyboardInterrupt:
        if budget.reached:
            raise BudgetExceeded(budget.message()) from None
        raise


def check(hours: float | None, results: Path) -> None:
    """UserError for a budget that is not a positive number, or that cannot be enforced."""
    if hours is None:
        return
    if not 0 < hours < float("inf"):
        raise UserError(f"--max-gpu-hours {hours:g}: expected a number above 0")
    if object_store.url(results) is not None:
        raise UserError("--max-gpu-hours: hours are not added up in a bucket yet; expected --results in a folder that all machines share")


def budgeted_sweeps(options: ExecutionOptions) -> list[str]:
    """Slugs of a search and of the sweep that retrains its best rows, which share one budget."""
    search = replace(options, name=options.name.removesuffix(":retrain"))
    return [search.slug, replace(search, name=f"{search.name}:retrain").slug]


def budget_of(options: ExecutionOptions, hours: float) -> Budget:
    """Creates the budget of a sweep. Runs in this process are stopped here, workers by the sweep's stop file."""
    unit = "GPU-hours" if best_device().type == "cuda" else "core-hours"
    file, workers = interrupt.stop_file(options.results, options.slug), options.has_workers

    def stop() -> None:
        """Acts as the second signal, which ends the sweep immediately."""
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def reset() -> None:
        file.unlink(missing_ok=True) if workers else interrupt.forget()

    save, margin = (file.touch, 5.0) if workers else (interrupt.request, 3 * POLL)
    return Budget(options.results, budgeted_sweeps(options), hours, unit, save=save, stop=stop, reset=reset, margin=margin)
