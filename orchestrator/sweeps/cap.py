"""A cap on the device-hours of a sweep. Near it the runs are asked to save and end, as by Ctrl-C; at it they are ended at once.

So that the cap holds whatever a run is at, the asking comes a margin before it: RESERVE seconds of all devices at work, or a tenth of the
cap where that is less. What cannot be broken off in that time (a decoding) is ended unfinished, and begins anew when the sweep goes on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from orchestrator.errors import UserError
from orchestrator.ledger import mirrored
from orchestrator.sweeps import usage

if TYPE_CHECKING:
    from orchestrator.sweeps.options import ExecutionOptions

T = TypeVar("T")
RESERVE = 60.0
POLL = 0.2


class CapError(KeyboardInterrupt):
    """The sweep was ended at its cap."""


class Cap:
    """Watches the hours of `sweeps` together from a thread.

    Near the cap `ask` is called, again and again; at it `end`, once; `forget` takes back what `ask` did when all is over.
    margin: seconds that an ending takes.
    """

    def __init__(
        self,
        results: Path,
        sweeps: Sequence[str],
        hours: float,
        unit: str,
        *,
        ask: Callable[[], object],
        end: Callable[[], object],
        forget: Callable[[], object],
        margin: float,
        poll: float = POLL,
    ) -> None:
        self.results, self.sweeps, self.hours, self.unit, self.margin = results, list(sweeps), hours, unit, margin
        self._ask, self._end, self._forget, self._poll = ask, end, forget, poll
        self.reached = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cap", daemon=True)

    def used(self) -> float:
        """Hours so far."""
        return sum(usage.used(self.results, sweep) for sweep in self.sweeps) / 3600

    def spent(self) -> bool:
        """Is there nothing left to begin with?"""
        return self.used() >= self.hours - min(0.1 * self.hours, RESERVE / 3600)

    def line(self) -> str:
        told = f"stopped at the cap: {self.used():.4g} of {self.hours:g} {self.unit} used"
        return f"{told}; the same command with a larger --max-gpu-hours goes on"

    def __enter__(self) -> Cap:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(timeout=5)
        self._forget()

    def _watch(self) -> None:
        ended = False
        while not self._over.wait(self._poll):
            step = self.step()
            if step != "go on":
                self.reached = True
                self._ask()
            if step == "end" and not ended:
                ended = True
                self._end()

    def step(self) -> str:
        """go on | ask (to save and end) | end (at once)."""
        devices = max(1, sum(usage.working(self.results, sweep) for sweep in self.sweeps))
        left = (self.hours - self.used()) * 3600
        if left <= min(0.05 * self.hours * 3600, devices * self.margin):
            return "end"
        return "ask" if left <= min(0.1 * self.hours * 3600, devices * RESERVE) else "go on"


def within_cap(options: ExecutionOptions, work: Callable[[], T]) -> T:
    """What `work` returns; CapError where the sweep's device-hours end it, or leave nothing to begin with."""
    if options.max_hours is None:
        return work()
    cap = cap_of(options)
    if cap.spent():
        raise CapError(cap.line())
    try:
        with cap:
            return work()
    except KeyboardInterrupt:
        if cap.reached:
            raise CapError(cap.line()) from None
        raise


def check(hours: float | None, results: Path) -> None:
    """UserError for a cap that is none, or that could not be kept."""
    if hours is None:
        return
    if not 0 < hours < float("inf"):
        raise UserError(f"--max-gpu-hours {hours:g}: expected a number above 0")
    if mirrored.url(results) is not None:
        raise UserError("--max-gpu-hours: hours are not added up in a bucket yet; expected --results in a folder that all machines share")


def together(options: ExecutionOptions) -> list[str]:
    """A search and the sweep that retrains its best rows have one cap."""
    search = replace(options, name=options.name.removesuffix(":retrain"))
    return [search.slug, replace(search, name=f"{search.name}:retrain").slug]


def cap_of(options: ExecutionOptions) -> Cap:
    """Of a sweep on its engine: the local one is told in this process, Ray's workers by the sweep's stop file."""
    from orchestrator import interrupt
    from orchestrator.training.runtime import best_device

    unit = "GPU-hours" if best_device().type == "cuda" else "core-hours"
    stop, ray = interrupt.stop_file(options.results, options.slug), options.engine == "ray"

    def end() -> None:
        """The handlers of a sweep take it for the second signal, which ends it at once."""
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def forget() -> None:
        stop.unlink(missing_ok=True) if ray else interrupt.forget()

    assert options.max_hours is not None
    ask, margin = (stop.touch, 5.0) if ray else (interrupt.request, 3 * POLL)
    return Cap(options.results, together(options), options.max_hours, unit, ask=ask, end=end, forget=forget, margin=margin)
