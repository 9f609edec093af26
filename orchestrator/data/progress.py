"""Progress bars of passes over a corpus, on a terminal, for commands that show nothing else meanwhile."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
_shown = False


def show_bars() -> None:
    """Makes `tracked` draw bars in this process."""
    global _shown
    _shown = True


def tracked(items: Iterable[T], name: str, total: int | None = None) -> Iterator[T]:
    """Yields the items. After `show_bars`, a terminal shows the share of `total` and the time left, until the end."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    hidden = not (_shown and console.is_terminal)
    yield from items if hidden else track(items, name, total=total, console=console, transient=True)
