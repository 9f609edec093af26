"""The progress of a running sweep: a table that updates on a terminal, plain lines elsewhere. Driven by the files of the runs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.ledger.results import Ledger
from orchestrator.safe_text import visible
from orchestrator.sweeps.asha import stopped_runs
from orchestrator.sweeps.forecast import ENDED, WORKING, Forecast, RunProgress, Tail, forecast, short_names, summary
from orchestrator.sweeps.task import Task
from orchestrator.training.warm_start import describe

POLL_SECONDS = 0.5
BAR = 10
SILENCE = 25.0
"""Seconds without a line after which one says how far the runs are, where there is no terminal."""
OTHER_LINES = 7
"""Lines of a screen that rows of the table leave free: its frame, the summary and the prompt."""


class LiveProgress:
    """Follows runs while they are made. search: ASHA's file, if it has one."""

    def __init__(
        self,
        tasks: Sequence[Task],
        console: Console,
        ledger: Ledger,
        search: Path | None = None,
    ) -> None:
        self.console, self.ledger, self._search = console, ledger, search
        self.runs = {task.name: _progress(task) for task in tasks}
        self.tails = {task.name: Tail(task.run_dir / "history.jsonl") for task in tasks}
        self._told = time.monotonic()
        self.live = Live(console=console, get_renderable=self._render, refresh_per_second=2, transient=True)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)

    def __enter__(self) -> LiveProgress:
        if self.console.is_terminal:
            self.live.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join(timeout=5)
        self._poll()
        if self.console.is_terminal:
            self.live.stop()

    def forecast(self) -> Forecast:
        return forecast(list(self.runs.values()))

    def _summary(self) -> str:
        return summary([run.status for run in self.runs.values()], self.forecast())

    def _follow(self) -> None:
        wait = POLL_SECONDS
        while not self._closed.wait(wait):
            started = time.monotonic()
            self._poll()
            due = self._told + SILENCE - time.monotonic()
            wait = max(POLL_SECONDS, min(20 * (time.monotonic() - started), due))  # the files of many runs take time to look at

    def _poll(self) -> None:
        stopped = {} if self._search is None else stopped_runs(self._search)
        for name, run in self.runs.items():
            if run.status in ENDED:
                continue
            for line in self.tails[name].read():
                self._tell(name, run, line)
            before = run.status
            if run.look(self.ledger, stopped):
                self._ended(name, run)
            elif run.status != before and run.status in WORKING:
                self._print_line(f"{name}: {run.status}")
        if time.monotonic() - self._told > SILENCE:
            active = [f"{name} step {run.steps}/{run.total or '?'}" for name, run in self.runs.items() if run.status in WORKING]
            self._print_line("; ".join([*active[:3], self._summary()]))

    def _tell(self, name: str, run: RunProgress, line: dict[str, object]) -> None:
        run.add(line)
        messages = [str(line["warning"])] if "warning" in line else []
        messages += [describe(line["warm_start"])] if "warm_start" in line else []  # type: ignore[arg-type]
        for message in messages:
            self._print(f"{name}: {message}")
        if "valid/nll" in line:
            self._print_line(f"{name}: step {run.steps}/{run.total or '?'}  {run.note}")

    def _ended(self, name: str, run: RunProgress) -> None:
        run.learn(self.ledger)
        what = f"{name}: {run.status}" + ("" if run.score is None else f", BLEU {run.score:.2f}")
        self._print_line(f"{what}; {self._summary()}")

    def _print_line(self, line: str) -> None:
        """Prints what the table of a terminal shows anyway."""
        if not self.console.is_terminal:
            self._told = time.monotonic()
            self._print(line)

    def _print(self, line: str) -> None:
        self.console.print(visible(line), highlight=False, markup=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        runs = list(self.runs.values())
        line = Text(self._summary())
        return Group(rows_table(runs, self.console.height - OTHER_LINES, self.console.width), line)


def rows_table(runs: Sequence[RunProgress], lines: int, width: int) -> Table:
    """A line a row over its seeds: of more than `lines`, those that are being worked on, then those that ended last."""
    rows: dict[str, list[RunProgress]] = {}
    for run in runs:
        rows.setdefault(run.row, []).append(run)
    table = Table(box=None, pad_edge=False, expand=False)
    table.add_column("row", no_wrap=True, overflow="ellipsis", max_width=max(12, width - 56))
    table.add_column("", width=BAR)
    for name in ("BLEU", "valid", "tok/s"):
        table.add_column(name, justify="right", no_wrap=True, min_width=5)
    table.add_column("", no_wrap=True, overflow="ellipsis", min_width=19)
    short = short_names(list(rows))
    shown = list(rows)
    if len(rows) > max(lines, 1):
        shown = sorted(rows, key=lambda row: _urgency(rows[row]))[: max(lines - 1, 1)]
        shown = [row for row in rows if row in shown]
    for row in shown:
        own = rows[row]
        table.add_row(
            visible(short[row]),
            _bar(own),
            _mean([run.score for run in own if run.score is not None], ".2f"),
            _mean([run.figures["valid"] for run in own if "valid" in run.figures], ".2f"),
            _mean([run.figures["tok/s"] for run in own if "tok/s" in run.figures], ",.0f"),
            ", ".join(f"{count} {state}" if len(own) > 1 else state for state, count in Counter(run.status for run in own).items()),
        )
    if len(shown) < len(rows):
        table.add_row(f"and {len(rows) - len(shown)} rows more")
    if len(rows) > 1:
        table.add_row("all", _bar(runs))
    return table


def _bar(runs: Sequence[RunProgress]) -> ProgressBar:
    """Over the updates of runs. One that has ended counts as whole, one of unknown length as the longest."""
    longest = max(run.total for run in runs)
    totals = [run.total or longest for run in runs]
    done = sum(total if run.status in ENDED else run.steps for run, total in zip(runs, totals, strict=True))
    return ProgressBar(total=max(1, sum(totals)), completed=done, width=BAR)


def _progress(task: Task) -> RunProgress:
    run = RunProgress(task.id, task.seed, task.scoring_keys, task.failed_below, task.workers)
    run.total = task.spec.train.max_steps or 0
    return run


def _urgency(runs: list[RunProgress]) -> int:
    states = {run.status for run in runs}
    return 0 if states & set(WORKING) else 1 if states & set(ENDED) else 2


def _mean(values: list[float], form: str) -> str:
    return f"{fmean(values):{form}}" if values else ""
