"""Renders a table as Markdown, JSON or LaTeX, with the escapes of each format."""

from collections.abc import Callable, Sequence

from orchestrator.report.ladder import Ladder
from orchestrator.report.latex import latex
from orchestrator.report.layout import layout
from orchestrator.report.table import Table
from orchestrator.safe_text import json_text
from orchestrator.safe_text import markdown as _md


def markdown(table: Table, names: Sequence[str] = ()) -> str:
    """A Markdown table with its title above and its notes below. names: of columns, see `layout`."""
    made = layout(table, names)
    headers, bold = [column.title for column in made.columns], [made.best(column) for column in made.columns]
    heads = [_md(header) for header in headers]
    shown = [[_bold(_md(cell), "**{}**", i in best) for cell, best in zip(row, bold, strict=True)] for i, row in enumerate(made.rows)]
    notes = "".join(f"\n{_md(note)}\n" for note in (*made.notes, *made.bold_notes, *table.notes))
    return f"**{_md(table.table)}**\n\n{markdown_grid(heads, shown)}\n{notes}"


def markdown_ladder(found: Ladder) -> str:
    """The rows of a ladder as a Markdown table with its notes."""
    grid = markdown_grid([*map(_md, found.HEADS)], [[*map(_md, row)] for row in found.cells()])
    return "\n\n".join([grid, "\n".join(f"- {_md(note)}" for note in found.notes)]) + "\n"


def markdown_grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The bare Markdown table of cells that are escaped already."""
    widths = [max(len(head), *(len(row[i]) for row in rows)) if rows else len(head) for i, head in enumerate(heads)]
    return "\n".join([_line(heads, widths), _line(["-" * width for width in widths], widths), *(_line(row, widths) for row in rows)])


def as_json(table: Table, names: Sequence[str] = ()) -> str:
    """The JSON of `Table.as_json`, which has every figure whatever the columns."""
    return json_text(table.as_json()) + "\n"


FORMATS: dict[str, Callable[..., str]] = {"md": markdown, "json": as_json, "latex": latex}


def several(tables: Sequence[Table], form: str, names: Sequence[str] = ()) -> str:
    """Renders one table, or several: concatenated, or as {"tables": [...]} in JSON."""
    if len(tables) == 1:
        return FORMATS[form](tables[0], names)
    if form == "json":
        return json_text({"tables": [table.as_json() for table in tables]}) + "\n"
    return "\n".join(FORMATS[form](table, names) for table in tables)


def _bold(text: str, form: str, best: bool) -> str:
    """Sets the figure itself in bold, without what follows it: `**35.46** ± 0.53`."""
    first, space, rest = text.partition(" ")
    return f"{form.format(first)}{space}{rest}" if best else text


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(value.ljust(width) for value, width in zip(values, widths, strict=True)) + " |"
