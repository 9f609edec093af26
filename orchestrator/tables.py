"""Tables for the terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from orchestrator.safe_text import visible


def cell(text: object) -> str:
    """Returns text as a cell of a rich table, with markup escaped."""
    return escape(visible(str(text)))


def counted(number: int, word: str) -> str:
    """`1 run`, `0 runs`, `1,200 runs`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def filled_table(lines: Sequence[Mapping[str, object]], *, title: str | None = None, numeric: Iterable[str] = ()) -> Table:
    """Returns a table of lines with the same columns: heading -> text."""
    table = make_table(lines[0], title=title, numeric=numeric)
    for line in lines:
        table.add_row(*map(cell, line.values()))
    return table


def make_table(columns: Iterable[str], *, title: str | None = None, numeric: Iterable[str] = ()) -> Table:
    """Returns a table without rows. Columns in `numeric` are right-aligned; long cells are folded."""
    right = set(numeric)
    table = Table(title=None if title is None else cell(title), title_justify="left")
    for name in columns:
        table.add_column(cell(name), justify="right" if name in right else "left", overflow="fold")
    return table
