"""Progress bars on stderr with rate and remaining time, for long analyses; disabled without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text


class Rate(ProgressColumn):
    """A column with the current rate in units per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f} {task.fields['unit']}/s")


def progress_bars() -> Progress:
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), Rate(), TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)


@contextmanager
def progress_bar(bars: Progress, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
    """Shows one bar and yields a function that advances it by a number of units (default 1)."""
    task = bars.add_task(name, total=total, unit=unit)
    yield partial(bars.advance, task)
    bars.remove_task(task)
