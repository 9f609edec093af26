"""Progress bars of passes over a corpus, on a terminal."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
EVERY = 1000


def tracked(items: Iterable[T], name: str, total: int | None = None) -> Iterator[T]:
    """Yields the items. On a terminal, stderr shows their number, the share of `total`, and the time left; the bar vanishes at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from items
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=total)
        for number, item in enumerate(items):
            if not number % EVERY:
                progress.update(task, completed=number)
            yield item
