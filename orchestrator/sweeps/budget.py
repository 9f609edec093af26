"""The device-hours of a sweep. Its driver sums them in RESULTS/sweeps/SWEEP.hours and ends the sweep at its cap.

A run counts while a process holds its lock. Time between runs and the start-up of processes and of Ray are not counted.
"""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.files.documents import read_or_refuse, read_or_tell, write_document
from orchestrator.ledger import object_store
from orchestrator.ledger.run_lock import owner, record_of
from orchestrator.safe_text import log_once
from orchestrator.sweeps.options import PARTS, ExecutionOptions, file_name, whole_name
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import best_device

RESERVE = 60.0
"""Runs are requested to save when the budget has this many seconds left for all active devices, or 15 % of it if that is less.
What cannot be interrupted in that time (decoding) is killed, and starts again when the sweep is resumed."""

KEY = digest("device-seconds of a sweep")
POLL, WRITE = 0.2, 2.0
"""Seconds between two checks of the locks, and between two writes of the file."""


def usage_file(results: Path, sweep: str) -> Path:
    return results / "sweeps" / f"{sweep}.hours"


def used_seconds(results: Path, sweep: str, *, capped: bool = True) -> float:
    """Returns the device-seconds that the sweep has used so far; 0 if none were counted.

    A damaged file raises UserError, because a cap would otherwise count from 0. Without a cap it gives one warning.
    """
    path, expected = usage_file(results, sweep), "the hours that the sweep used, as it wrote them, or no file to count from 0"
    document = read_or_refuse(path, expected) if capped else read_or_tell(path)
    return 0.0 if document is None else float(document["device_seconds"])


def devices_of(task: Task, engine: str) -> int:
    """Returns the GPUs, or else the CPU threads, of a training. The local engine trains a row in one process."""
    return (task.workers if engine == "ray" else 1) * (1 if best_device().type == "cuda" else task.spec.train.threads)


class BudgetExceeded(KeyboardInterrupt):
    """The sweep was ended at its budget."""


class Budget:
    """A thread that counts the device-hours of a sweep's tasks. A search and the sweep that trains its best rows share one cap.

    Near the cap it asks runs to save and end, here or by the sweep's stop file; at the cap it ends them at once, as a second signal does.
    """

    def __init__(self, options: ExecutionOptions, tasks: Sequence[Task]) -> None:
        self.options, self.on_gpu = options, best_device().type == "cuda"
        self.cap = float("inf") if options.max_hours is None else options.max_hours * 3600
        # several rows of one training run once, as the first
        self.devices = {task.run_dir / "lock": devices_of(task, options.engine) for task in reversed(tasks)}
        self._stale = {lock: record_of(lock) for lock in self.devices}  # of machines that were lost with an earlier cluster
        whole = whole_name(options.name)
        both = {file_name(name) for name in (whole, *(f"{whole}:{part}" for part in PARTS))}
        self.others = sum(self._used(slug) for slug in both - {options.slug})
        self.own = self._used(options.slug)
        self.reached = False
        self._closed = threading.Event()

    def action(self, devices: int) -> Literal["continue", "save", "stop"]:
        """Returns what the sweep should do now, with `devices` active devices."""
        devices, left = max(1, devices), self.cap - self.own - self.others
        if left <= min(0.1 * self.cap, devices * (5.0 if self.options.has_workers else 3 * POLL)):
            return "stop"
        return "save" if left <= min(0.15 * self.cap, devices * RESERVE) else "continue"

    def exceeded(self) -> BudgetExceeded:
        unit, hours = "GPU-hours" if self.on_gpu else "core-hours", (self.own + self.others) / 3600
        used = f"{hours:.4g} of {self.cap / 3600:g} {unit} used"
        return BudgetExceeded(f"stopped at the cap: {used}; the same command with a larger --max-{unit.lower()} resumes")

    def active(self) -> int:
        held = ((lock, owner(lock)) for lock in self.devices)
        return sum(self.devices[lock] for lock, record in held if record is not None and record != self._stale[lock])

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="budget", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._closed.set()
            thread.join(timeout=5)
            if self.reached:
                interrupt.stop_file(self.options.results, self.options.slug).unlink(missing_ok=True)
                interrupt.forget()

    def _watch(self) -> None:
        last = written = time.monotonic()
        wait, stopped, devices = POLL, False, 0
        while not self._closed.wait(wait):
            now, busy = time.monotonic(), time.thread_time()
            with suppress(OSError):  # of a share that is away: the last number counts on
                devices = self.active()
            self.own += devices * (now - last)
            if now - written >= WRITE:
                self._write()
                written = now
            action = self.action(devices)
            if action != "continue" and not self._closed.is_set():
                self.reached = True
                if self.options.has_workers:
                    with suppress(OSError):  # such as a full disk: the next turn tries again, and the cap ends the runs by a signal
                        interrupt.stop_file(self.options.results, self.options.slug).touch()
                else:
                    interrupt.request()
            if action == "stop" and not stopped:
                stopped = True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            last, wait = now, max(POLL, 50 * (time.thread_time() - busy))  # the locks of many runs take time to read
        self._write()

    def _used(self, slug: str) -> float:
        return used_seconds(self.options.results, slug, capped=self.options.max_hours is not None)

    def _write(self) -> None:
        try:
            write_document(usage_file(self.options.results, self.options.slug), {"device_seconds": round(self.own, 3)}, KEY)
        except OSError as error:  # such as a full disk; the cap holds
            log_once(f"warning: device-hours are not saved: {error}")


@contextmanager
def budgeted(options: ExecutionOptions, tasks: Sequence[Task]) -> Iterator[None]:
    """Context: the device-hours of the tasks count. BudgetExceeded if the cap ends the sweep, or leaves too little to start."""
    budget = Budget(options, tasks)
    if budget.action(1) != "continue":
        raise budget.exceeded()
    try:
        with budget.watching():
            yield
    except KeyboardInterrupt:
        if budget.reached:
            raise budget.exceeded() from None
        raise


def check(hours: float | None, results: Path) -> None:
    """UserError for a budget that is not a positive number, or that cannot be enforced."""
    if hours is not None and not 0 < hours < float("inf"):
        raise UserError(f"--max-core-hours or --max-gpu-hours {hours:g}: expected a number above 0")
    if hours is not None and object_store.url(results) is not None:
        raise UserError(
            "--max-core-hours or --max-gpu-hours: not counted in a bucket; expected --results in a folder that all machines share"
        )
