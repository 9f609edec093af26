"""Progress of the runs of a sweep and its expected end, from the files of the runs.

A run's speed comes from its own reports, else from other seeds of its row, else from all runs with reports. The time of decoding and of the
search for a length penalty comes from runs that are already scored, in the same order. Runs that a scheduler may still stop count in full.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from orchestrator.files.json_lines import records_in
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import RunView
from orchestrator.specs.row import short_id, table_of

ENDED = ("done", "stopped", "diverged", "failed")
"""States of a run with no work left for the sweep."""
WORKING = ("running", "decoding")
PAUSED = "paused"  # at the rung at which a search compares its trials
OPEN = (*WORKING, PAUSED, "interrupted", "waiting")
FIGURES = {
    "train/nll": ("nll", ".2f"),
    "valid/nll": ("valid", ".2f"),
    "train/lr": ("lr", ".2g"),
    "train/tokens_per_second": ("tok/s", ".0f"),
}


class Tail:
    """Reads the complete lines appended to a JSON-lines file since the last `read`."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, path.stat().st_size if path.exists() else 0

    def read(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self.offset += len(complete)
        return list(records_in(complete))


@dataclass
class RunProgress:
    """A run's progress. steps, total: finished and planned updates, 0 if unknown. rate: seconds per update. decoding: seconds. score: BLEU.

    scorings: keys by name of the scoring, as in `RunView.read`. stopped_at: for a stopped or failed run that continues, the updates in its
    record. until: the rung of a search at which the run pauses.
    """

    row: str
    seed: int
    scorings: Mapping[str, Keys]
    failed_below: float | None = None
    devices: int = 1
    status: str = "waiting"
    steps: int = 0
    total: int = 0
    rate: float | None = None
    decoding: float | None = None
    stopped_at: int | None = None
    until: int | None = None
    score: float | None = None
    figures: dict[str, float] = field(default_factory=dict)
    _first: tuple[int, float] | None = None

    @property
    def name(self) -> str:
        return f"{self.row}:{self.seed}"

    @property
    def train_key(self) -> str:
        return self.scorings[""].train or ""

    @property
    def left(self) -> int:
        """Returns the number of remaining updates; 0 for a finished run."""
        return 0 if self.status in ENDED else max(0, self.total - self.steps)

    def add(self, line: dict[str, Any]) -> None:
        step, now = int(line.get("step", 0)), line.get("t")
        self.steps, self.total = step, int(line.get("total_steps", self.total))
        self.figures |= {label: float(line[key]) for key, (label, _) in FIGURES.items() if isinstance(line.get(key), (int, float))}
        if "total_steps" in line:  # written when a process starts or resumes the run
            self._first = None
        if isinstance(now, (int, float)):
            if self._first is None or step < self._first[0] or now < self._first[1]:  # or the clock was set back
                self._first = (step, float(now))
            elif step > self._first[0]:
                self.rate = (now - self._first[1]) / (step - self._first[0])

    def look(self, ledger: Ledger, stopped: Mapping[str, int] | None = None) -> bool:
        """Updates status and score from the ledger. Returns whether the run has just ended or paused.

        stopped: runs that the scheduler has stopped, whose records are written at the sweep's end.
        """
        before = self.status
        view = RunView.read(ledger, self.scorings, self.failed_below)
        of_earlier = view.steps == self.stopped_at or (view.status in ENDED and view.is_held)
        if view.outcome.finished or (view.status in ENDED and not of_earlier):
            self.status = PAUSED if view.status == "stopped" and view.steps == self.until else view.status
            self.steps = view.steps or self.steps
        elif self.name in (stopped or {}):
            self.status = "stopped"
        elif view.is_held:
            trained = (view.status == "trained" and not view.trains_again) or (self.total and self.steps >= self.total)
            self.status = "decoding" if trained else "running"
        else:
            self.status = "interrupted" if self.steps else "waiting"
        self.score = view.bleu
        if self.status == "done" and self.decoding is None:
            used = {
                (folder, key) for keys in self.scorings.values() for folder, key in (("decode", keys.decode), ("tune", keys.tune)) if key
            }
            self.decoding = sum((ledger.record(self.train_key, *place) or {}).get("seconds", 0.0) for place in used)
        return self.status != before and self.status in (*ENDED, PAUSED)

    @property
    def note(self) -> str:
        return "  ".join(f"{label} {self.figures[label]:{form}}" for label, form in FIGURES.values() if label in self.figures)

    @property
    def seconds_left(self) -> float | None:
        """Returns the remaining seconds of training while the run works."""
        return None if self.rate is None or self.status not in WORKING else self.left * self.rate

    def as_json(self) -> dict[str, Any]:
        at = {"id": self.row, "seed": self.seed, "status": self.status, "steps": self.steps, "total_steps": self.total or None}
        at |= {"valid_nll": self.figures.get("valid"), "tokens_per_second": self.figures.get("tok/s"), "bleu": self.score}
        return at | {"seconds_left": self.seconds_left, "key": self.train_key}


@dataclass(frozen=True)
class Forecast:
    """Expected remaining time. seconds: to the end, by the clock. device_seconds: as the cap counts. None before the first report of a run.

    training: both count only training, because no run is scored yet.
    """

    seconds: float | None
    device_seconds: float | None
    training: bool = False

    def text(self, now: float | None = None) -> str:
        if self.seconds is None or self.device_seconds is None:
            return "time left: known after the first reports"
        end = time.strftime("%H:%M", time.localtime((time.time() if now is None else now) + self.seconds))
        what = "of training left" if self.training else "left"
        return f"about {duration(self.seconds)} {what} (until {end}, {self.device_seconds / 3600:.2g} device-hours)"


def forecast(runs: Sequence[RunProgress]) -> Forecast:
    rates, decodings = (_by_row(runs, value) for value in ("rate", "decoding"))
    left = [run for run in runs if run.status not in ENDED]
    if not left:
        return Forecast(0.0, 0.0)
    if not rates:
        return Forecast(None, None)
    total = max(run.total for run in runs)
    seconds = []
    for run in left:
        rate = run.rate if run.rate is not None else _usual(rates, run.row)
        decoding = _usual(decodings, run.row) if decodings and run.scorings[""].decode else 0.0
        seconds.append(rate * (run.left if run.total else total) + decoding)
    together = max(1, sum(run.status in WORKING for run in left))
    device = sum(s * run.devices for s, run in zip(seconds, left, strict=True))
    return Forecast(max(sum(seconds) / together, max(seconds)), device, training=not decodings)


def _by_row(runs: Sequence[RunProgress], value: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for run in runs:
        if (known := getattr(run, value)) is not None:
            found.setdefault(run.row, []).append(known)
    return found


def _usual(known: Mapping[str, list[float]], row: str) -> float:
    """Returns the mean over the row's seeds, else over all runs."""
    return fmean(known.get(row) or chain.from_iterable(known.values()))


def summary(statuses: Sequence[str], ahead: Forecast) -> str:
    """`3 of 12 runs ended (3 done), 2 running, 7 waiting; about 4 min of training left (until 13:40, 0.1 device-hours)`."""
    counts = Counter(statuses)
    ended = ", ".join(f"{counts[state]} {state}" for state in ENDED if counts[state])
    number = sum(counts[state] for state in ENDED)
    parts = [f"{number} of {len(statuses)} runs ended" + (f" ({ended})" if ended else "")]
    parts += [f"{counts[state]} {state}" for state in OPEN if counts[state]]
    return ", ".join(parts) + ("" if number == len(statuses) else f"; {ahead.text()}")


def short_names(rows: list[str]) -> dict[str, str]:
    """Returns the addresses, without the table if all rows belong to one table."""
    one = len(set(map(table_of, rows))) == 1
    return {row: short_id(row) or row if one else row for row in rows}


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
