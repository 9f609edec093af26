"""Renders a table as Markdown, JSON, LaTeX or HTML, with the escapes of each format."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from orchestrator.report.latex import latex
from orchestrator.report.layout import layout
from orchestrator.report.table import Table
from orchestrator.safe_text import json_text, visible
from orchestrator.safe_text import markdown as _md


def markdown(table: Table, names: Sequence[str] = ()) -> str:
    """A Markdown table with its title above and its notes below. names: of columns, see `layout`."""
    made = layout(table, names)
    headers, rows = [column.title for column in made.columns], made.rows
    heads, shown = [_md(header) for header in headers], [[_md(cell) for cell in row] for row in rows]
    widths = [max(len(header), *(len(row[i]) for row in shown)) if shown else len(header) for i, header in enumerate(heads)]
    lines = [_line(heads, widths), _line(["-" * width for width in widths], widths), *(_line(row, widths) for row in shown)]
    notes = "".join(f"\n{_md(note)}\n" for note in (*made.notes, *table.notes))
    return f"**{_md(table.table)}**\n\n" + "\n".join(lines) + "\n" + notes


def as_json(table: Table, names: Sequence[str] = ()) -> str:
    """The JSON of `Table.as_json`, which has every figure whatever the columns."""
    return json_text(table.as_json()) + "\n"


def as_html(table: Table, names: Sequence[str] = ()) -> str:
    """An HTML fragment without scripts, styles or links. names: of columns, see `layout`."""
    made = layout(table, names)
    headers, rows = [column.title for column in made.columns], made.rows

    def row(tag: str, values: list[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_html(value)}</{tag}>" for value in values) + "</tr>"

    body = "\n".join(row("td", values) for values in rows)
    notes = "".join(f"<p>{_html(note)}</p>\n" for note in (*made.notes, *table.notes))
    caption = f"<caption>{_html(table.table)}</caption>"
    return f"<table>\n{caption}\n<thead>{row('th', headers)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n{notes}"


FORMATS: dict[str, Callable[..., str]] = {"md": markdown, "json": as_json, "latex": latex, "html": as_html}


def several(tables: Sequence[Table], form: str, names: Sequence[str] = ()) -> str:
    """Renders one table, or several: concatenated, or as {"tables": [...]} in JSON."""
    if len(tables) == 1:
        return FORMATS[form](tables[0], names)
    if form == "json":
        return json_text({"tables": [table.as_json() for table in tables]}) + "\n"
    return "\n".join(FORMATS[form](table, names) for table in tables)


def _line(values: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(value.ljust(width) for value, width in zip(values, widths, strict=True)) + " |"


def _html(text: str) -> str:
    return html.escape(visible(text))
