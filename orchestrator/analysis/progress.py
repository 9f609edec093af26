"""Progress bars on stderr with elapsed and remaining time, for long analyses; disabled without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bars() -> Progress:
    """Returns bars on stderr."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.fields[unit]}"))
    return Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, disable=not console.is_terminal)


@contextmanager
def progress_bar(bars: Progress, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
    """Shows one bar and yields a function that advances it by a number of units (default 1)."""
    task = bars.add_task(name, total=total, unit=unit)
    yield partial(bars.advance, task)
    bars.remove_task(task)
