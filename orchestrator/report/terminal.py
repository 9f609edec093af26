"""A table for a terminal: as many columns as fit its width."""

from collections.abc import Sequence

from rich.console import Console

from orchestrator.report.cells import Column
from orchestrator.report.ladder import Ladder
from orchestrator.report.layout import layout
from orchestrator.report.table import Table
from orchestrator.safe_text import visible
from orchestrator.tables import cell, make_table

FIRST_TO_GO = ("chrf_delta", "parts", "params", "chrf", "system", "steps", "data", "seeds", "status", "nll", "delta")
TEXT_WIDTH = 18
"""Width to which long texts are folded if need be."""


def show(console: Console, table: Table, names: Sequence[str] = ()) -> None:
    """Prints the table and its notes. names: of columns, see `layout`; all of them are printed then."""
    made = layout(table, names)
    kept = made.columns if names else fitting(made.columns, console.width)
    numeric = [column.title for column in kept if column.numeric]
    drawn = make_table([column.title for column in kept], title=table.table, numeric=numeric)
    for column, one in zip(drawn.columns, kept, strict=True):
        column.no_wrap = one.numeric or one.name == "row"
    for place in range(len(table.rows)):
        drawn.add_row(*(cell(column.cells[place]) for column in kept))
    console.print(drawn)
    left = [column.title for column in made.columns if column not in kept]
    more = [f"left out, {console.width} columns are too few: {', '.join(left)} (--columns, --format md)"] if left else []
    for note in (*more, *made.notes, *table.notes):
        console.print(visible(f"note: {note}"), markup=False)


def show_ladder(console: Console, found: Ladder) -> None:
    """Prints a table at several sizes."""
    drawn = make_table(found.HEADS, title=f"{found.table} at {len(found.profiles)} sizes", numeric=("parameters",))
    for row in found.cells():
        drawn.add_row(*map(cell, row))
    console.print(drawn)
    for note in found.notes:
        console.print(visible(f"note: {note}"), markup=False)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns without the least important ones, until the rest fits."""
    kept = list(columns)
    for name in FIRST_TO_GO:
        if sum(_least(column) + 3 for column in kept) + 1 <= width:
            break
        kept = [column for column in kept if column.name != name or (name == "delta" and column.ours)]
    return kept


def _least(column: Column) -> int:
    """The width below which a column is hard to read."""
    longest = max(map(len, (column.title if column.numeric else "", *column.cells)))
    return longest if column.numeric or column.name == "row" else min(longest, TEXT_WIDTH)
