"""Renders a table as Markdown, JSON, LaTeX or HTML, with the escapes of each format."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from orchestrator.report.cells import cells
from orchestrator.report.table import Table
from orchestrator.safe_text import json_text, visible
from orchestrator.safe_text import markdown as _md

_TEX = (
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {"|": r"\textbar{}", "†": r"\textdagger{}", "*": r"\textasteriskcentered{}", "×": r"\texttimes{}", "±": r"\textpm{}"}
    | {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "⇑": r"$\Uparrow$", "⇓": r"$\Downarrow$"}
    | {c: f"\\{c}" for c in "&%$#_{}"}
)
"""Characters that LaTeX needs escaped, or (`<`, `>`, `|`) shows as others in its default font encoding."""


def markdown(table: Table) -> str:
    """A Markdown table with its title above and its notes below."""
    headers, rows = cells(table)
    heads, shown = [_md(header) for header in headers], [[_md(cell) for cell in row] for row in rows]
    widths = [max(len(header), *(len(row[i]) for row in shown)) if shown else len(header) for i, header in enumerate(heads)]
    lines = [_line(heads, widths), _line(["-" * width for width in widths], widths), *(_line(row, widths) for row in shown)]
    notes = "".join(f"\n{_md(note)}\n" for note in table.notes)
    return f"**{_md(table.table)}**\n\n" + "\n".join(lines) + "\n" + notes


def as_json(table: Table) -> str:
    """The JSON of `Table.as_json`."""
    return json_text(table.as_json()) + "\n"


def latex(table: Table) -> str:
    """A LaTeX table, which needs the package booktabs. The notes follow in small print."""
    headers, rows = cells(table)
    body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in rows]
    head = " & ".join(_tex(header) for header in headers) + r" \\"
    columns = "ll" + "r" * (len(headers) - 3) + "l"
    notes = [rf"\\[2pt] \footnotesize {_tex(note)}" for note in table.notes]
    lines = [
        f"% {visible(' '.join(table.table.split()))}",
        r"\begingroup\raggedright\noindent",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *notes,
        r"\par\endgroup",
    ]
    return "\n".join(lines) + "\n"


def as_html(table: Table) -> str:
    """An HTML fragment without scripts, styles or links."""
    headers, rows = cells(table)

    def row(tag: str, values: list[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_html(value)}</{tag}>" for value in values) + "</tr>"

    body = "\n".join(row("td", values) for values in rows)
    notes = "".join(f"<p>{_html(note)}</p>\n" for note in table.notes)
    caption = f"<caption>{_html(table.table)}</caption>"
    return f"<table>\n{caption}\n<thead>{row('th', headers)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n{notes}"


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "json": as_json, "latex": latex, "html": as_html}


def several(tables: Sequence[Table], form: str) -> str:
    """Renders one table, or several: concatenated, or as {"tables": [...]} in JSON."""
    if len(tables) == 1:
        return FORMATS[form](tables[0])
    if form == "json":
        return json_text({"tables": [table.as_json() for table in tables]}) + "\n"
    return "\n".join(FORMATS[form](table) for table in tables)


def _line(values: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(value.ljust(width) for value, width in zip(values, widths, strict=True)) + " |"


def _html(text: str) -> str:
    return html.escape(visible(text))


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in visible(" ".join(text.split())))
