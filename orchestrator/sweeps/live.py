"""The progress of a running sweep, from the files of the runs: a table that updates on a terminal, plain lines elsewhere.

`phase` shows that a part of a command is running: a spinner on a terminal, else a line.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from orchestrator.ledger.results import Ledger
from orchestrator.safe_text import log, visible
from orchestrator.sweeps.asha import stopped_runs
from orchestrator.sweeps.budget import devices_of
from orchestrator.sweeps.forecast import ENDED, WORKING, RunProgress, Tail, forecast, summary
from orchestrator.sweeps.status import runs_table
from orchestrator.sweeps.task import Task

POLL_SECONDS = 0.5
SILENCE = 25.0
"""Without a terminal: seconds without output after which a line reports the progress."""


@contextmanager
def phase(what: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Context: shows the phase `what`. Yields a function that changes its text. console: the console of other output meanwhile."""
    console = console or Console(file=sys.stderr)
    if console.is_terminal:
        with console.status(visible(what)) as status:
            yield lambda text: status.update(visible(text))
        return
    timer = threading.Timer(1.0, log, (what,))  # a short phase prints no line
    timer.start()
    try:
        yield lambda text: None
    finally:
        timer.cancel()


class LiveProgress:
    """Follows the runs of a sweep. search: ASHA's file, if there is one."""

    def __init__(self, tasks: Sequence[Task], console: Console, ledger: Ledger, search: Path | None = None, engine: str = "local") -> None:
        self.console, self.ledger, self._search = console, ledger, search
        self.runs = {
            task.name: RunProgress(
                task.id, task.seed, task.scoring_keys, task.failed_below, devices_of(task, engine), total=task.spec.train.max_steps or 0
            )
            for task in tasks
        }
        for task, run in zip(tasks, self.runs.values(), strict=True):
            run.until, run.stopped_at = task.until, (ledger.read_train(run.train_key) or {}).get("steps")
        self.tails = {task.name: Tail(task.run_dir / "history.jsonl") for task in tasks}
        self._told = time.monotonic()
        self.live = Live(console=console, get_renderable=self._render, refresh_per_second=2, transient=True)
        self._closed = threading.Event()

    @contextmanager
    def following(self) -> Iterator[None]:
        thread = threading.Thread(target=self._follow, name="progress", daemon=True)
        with self.live if self.console.is_terminal else nullcontext():
            thread.start()
            try:
                yield
            finally:
                self._closed.set()
                thread.join(timeout=5)
                self._poll()

    def _summary(self) -> str:
        runs = list(self.runs.values())
        return summary([run.status for run in runs], forecast(runs))

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
            lines = self.tails[name].read()
            if lines and run.status not in WORKING:
                run.status = "running"
                self._print_line(f"{name}: running")
            for line in lines:
                self._tell(name, run, line)
            before = run.status
            if run.look(self.ledger, stopped):
                score = "" if run.score is None else f", BLEU {run.score:.2f}"
                self._print_line(f"{name}: {run.status}{score}; {self._summary()}")
            elif run.status != before and run.status in WORKING:
                self._print_line(f"{name}: {run.status}")
        if time.monotonic() - self._told > SILENCE:
            active = [f"{name} step {run.steps}/{run.total or '?'}" for name, run in self.runs.items() if run.status in WORKING]
            self._print_line("; ".join([*active[:3], self._summary()]))

    def _tell(self, name: str, run: RunProgress, line: dict[str, object]) -> None:
        run.add(line)
        messages = [str(line["warning"])] if "warning" in line else []
        if isinstance(lists := line.get("warm_start"), dict):
            messages.append("warm start, tensors: " + ", ".join(f"{len(names)} {kind}" for kind, names in lists.items()))
        for message in messages:
            self._print(f"{name}: {message}")
        if "valid/nll" in line:
            self._print_line(f"{name}: step {run.steps}/{run.total or '?'}  {run.note}")

    def _print_line(self, line: str) -> None:
        """Prints a line unless a terminal's table shows it anyway."""
        if not self.console.is_terminal:
            self._told = time.monotonic()
            self._print(line)

    def _print(self, line: str) -> None:
        self.console.print(visible(line), highlight=False, markup=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        """Returns the table: active runs, then finished runs, as far as the screen has room, and a summary of all runs."""
        runs = list(self.runs.values())
        urgent = sorted(runs, key=lambda run: 0 if run.status in WORKING else 1 if run.status in ENDED else 2)
        names = {run.name for run in urgent[: max(1, self.console.height - 10)]}  # less frame, summary and prompt
        more = f"{len(runs) - len(names)} runs are not shown; " if len(names) < len(runs) else ""
        table = runs_table([run for run in runs if run.name in names])
        for column in table.columns:  # a long name must not take a second line
            column.no_wrap, column.overflow = True, "ellipsis"
        return Group(table, Text(more + self._summary()))
