"""Progress bars of passes over a corpus, on a terminal, for commands that show nothing else meanwhile."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
EVERY = 1000
_shown = False


def show_bars() -> None:
    """Makes `tracked` draw bars in this process."""
    global _shown
    _shown = True


def tracked(items: Iterable[T], name: str, total: int | None = None) -> Iterator[T]:
    """Yields the items. After `show_bars`, a terminal shows their number, the share of `total` and the time left, until the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (_shown and console.is_terminal):
        yield from items
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=total)
        for number, item in enumerate(items):
            if not number % EVERY:
                progress.update(task, completed=number)
            yield item
