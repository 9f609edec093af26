"""Renders a table as Markdown, JSON or LaTeX, with the escapes of each format, or on a terminal with as many columns as fit."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from string import Template

from rich.console import Console

from orchestrator.report.cells import Column, layout, state
from orchestrator.report.ladder import Ladder
from orchestrator.report.notes import ENVIRONMENTS, VERDICTS, grouped
from orchestrator.report.table import Table
from orchestrator.safe_text import json_text, visible
from orchestrator.safe_text import markdown as _md
from orchestrator.scoring.rouge import ROUGE
from orchestrator.specs.row import short_id
from orchestrator.tables import cell, filled_table, make_table

_TEX = (
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {"|": r"\textbar{}", "†": r"\textdagger{}", "*": r"\textasteriskcentered{}", "×": r"$\times$", "±": r"$\pm$"}
    | {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "⇑": r"$\Uparrow$", "⇓": r"$\Downarrow$"}
    | {c: f"\\{c}" for c in "&%$#_{}"}
)
"""Characters that need an escape in LaTeX. `<`, `>` and `|` would print as other characters in the default font encoding."""
_MINUS, _RANGE = re.compile(r"(?<![\w.)-])-(?=\d)"), re.compile(r"(?<=\d)-(?=\d)")
_INTERVAL = re.compile(r"\((\S+) to (\S+)\)")
WRAPPED = 36
"""Number of characters from which a text is wrapped."""
COLUMN = 52
"""Number of characters that fit one column of a paper. A wider table spans both columns."""
OF_PAPER = ("row", "system", "params", "bleu", "delta", "verdict", "nll", *ROUGE)
OF_NOTES = ("against", "data", "steps", "seeds")
"""Columns of LaTeX, and columns that its notes replace, unless the caller names columns."""


def latex(table: Table, names: Sequence[str] = ()) -> str:
    """Returns a LaTeX float, which needs the packages array, booktabs and graphicx. names: see `layout`."""
    made, left = layout(table, names), list[str]()
    if not names:  # a page is narrow; the notes have the rest
        left = [f"{c.title}: {_by_row(table, c)}" for c in made.columns if c.name in OF_NOTES]
        made = replace(made, columns=[_word(c) for c in made.columns if c.name in {*OF_PAPER, *table.scores}])
    bold = {id(column): made.best(column) for column in made.columns}
    body = [
        " & ".join(_cell(column, place, place in bold[id(column)]) for column in made.columns) + r" \\" for place in range(len(table.rows))
    ]
    scale = next((note for note in table.notes if note.startswith("ours: ")), None)
    states = [] if names else [f"{short_id(line.id)}: {state(line)}" for line in table.rows if not state(line).startswith("done")]
    about = [note for note in table.notes if not note.startswith(ENVIRONMENTS)]
    said = (*made.notes, *left, *states, *made.bold_notes, *about)
    notes = [_tex(note.replace("(.. to ..)", "[.., ..]").removesuffix(VERDICTS)) for note in said if note != scale]
    below = r" \\ ".join(notes)
    name = _tex(table.table) + (f": {_tex(scale.removeprefix('ours: '))}" if scale else "")
    beside = " The paper's figures beside ours." if any(line.reported for line in table.rows) else ""
    width = sum(2 + min(WRAPPED, max(map(len, (column.title, *column.cells)))) for column in made.columns)
    return Template(Path(__file__).with_name("table.tex").read_text(encoding="utf-8")).substitute(
        title=visible(" ".join(table.table.split())),
        kind="table*" if width > COLUMN else "table",
        caption=f"{name}.{beside}",
        label=re.sub(r"[^A-Za-z0-9-]", "-", table.table),
        columns="".join(map(_alignment, made.columns)),
        rows="\n".join([*_head(made.columns), r"\midrule", *body]),
        below=f"\\par\\smallskip\n\\parbox{{\\linewidth}}{{\\scriptsize\\raggedright {below}}}\n" if notes else "",
    )


def _by_row(table: Table, column: Column) -> str:
    return grouped((short_id(line.id), text) for line, text in zip(table.rows, column.cells, strict=True) if text)


def _word(column: Column) -> Column:
    """Returns the column of verdicts without their reasons; others as they are."""
    return replace(column, cells=[text.partition(": ")[0] for text in column.cells]) if column.name == "verdict" else column


def _alignment(column: Column) -> str:
    long = not column.numeric and max(map(len, column.cells)) > WRAPPED
    return rf">{{\raggedright\arraybackslash}}p{{{0.4 * WRAPPED:.0f}em}}" if long else "r" if column.numeric else "l"


def _head(columns: Sequence[Column]) -> list[str]:
    """Returns one line of titles, or two if a figure has both the paper's column and ours."""
    groups = [(name, list(each)) for name, each in groupby(columns, key=lambda column: column.name)]
    if all(len(each) == 1 for _, each in groups):
        return [" & ".join(_tex(column.title) for column in columns) + r" \\"]
    top, rules, below, at = [], [], [], 1
    for _, each in groups:
        title = _tex(each[0].title.removesuffix(" (paper)").removesuffix(" (ours)"))
        if len(each) > 1:
            top.append(rf"\multicolumn{{{len(each)}}}{{c}}{{{title}}}")
            rules.append(rf"\cmidrule(lr){{{at}-{at + len(each) - 1}}}")
            below += ["ours" if column.ours else "paper" for column in each]
        else:
            top.append("")
            below.append(_tex(each[0].title))
        at += len(each)
    return [" & ".join(top) + r" \\", " ".join(rules), " & ".join(below) + r" \\"]


def _cell(column: Column, place: int, bold: bool) -> str:
    shown = column.cells[place]
    text = _tex(shown)
    if column.numeric or not shown[:1].isalpha():
        text = _RANGE.sub("--", _MINUS.sub("$-$", text))
    text = _INTERVAL.sub(r"{\\scriptsize [\1, \2]}", text)
    first, _, rest = text.partition(" ")
    return rf"\textbf{{{first}}} {rest}".rstrip() if bold else text


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in visible(" ".join(text.split()))).replace("--", "-{}-")


def markdown(table: Table, names: Sequence[str] = ()) -> str:
    """A Markdown table with its title above and its notes below. names: of columns, see `layout`."""
    made = layout(table, names)
    heads, columns = [_md(column.title) for column in made.columns], []
    for column in made.columns:
        best = made.best(column)
        columns.append([_bold(_md(cell)) if place in best else _md(cell) for place, cell in enumerate(column.cells)])
    rows = list(zip(*columns, strict=True))
    notes = "".join(f"\n{_md(note)}\n" for note in (*made.notes, *made.bold_notes, *table.notes))
    return f"**{_md(table.table)}**\n\n{markdown_grid(heads, rows)}\n{notes}"


def markdown_ladder(found: Ladder) -> str:
    """The rows of a ladder as a Markdown table with its notes."""
    cells = [[*map(_md, row)] for row in found.cells()]
    columns = [column for column in zip(map(_md, found.HEADS), *cells, strict=True) if any(column[1:]) or not cells]
    heads, *rows = zip(*columns, strict=True)
    grid = markdown_grid(heads, rows)
    return "\n\n".join([grid, "\n".join(f"- {_md(note)}" for note in found.notes)]) + "\n"


def markdown_grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The bare Markdown table of cells that are escaped already."""
    widths = [max(len(head), *(len(row[i]) for row in rows)) if rows else len(head) for i, head in enumerate(heads)]
    return "\n".join([_line(heads, widths), _line(["-" * width for width in widths], widths), *(_line(row, widths) for row in rows)])


FORMATS: dict[str, Callable[..., str]] = {"md": markdown, "latex": latex}


def several(tables: Sequence[Table], form: str, names: Sequence[str] = ()) -> str:
    """Renders tables: concatenated, or as JSON with every figure whatever the columns, several as {"tables": [...]}."""
    if form != "json":
        return "\n".join(FORMATS[form](table, names) for table in tables)
    found = [table.as_json() for table in tables]
    return json_text(found[0] if len(found) == 1 else {"tables": found}) + "\n"


def _bold(text: str) -> str:
    """Sets the figure itself in bold, without what follows it: `**35.46** ± 0.53`."""
    first, space, rest = text.partition(" ")
    return f"**{first}**{space}{rest}"


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(value.ljust(width) for value, width in zip(values, widths, strict=True)) + " |"


FIRST_TO_GO = ("chrf_delta", "parts", "params", "chrf", "system", "steps", "data", "seeds", "status", "nll")
LAST_TO_GO = ("against", *ROUGE, "bleu", "delta", "verdict")
"""Columns in the order in which a narrow terminal leaves them out. Between both go the paper's figures, then other columns."""


def show(console: Console, table: Table, names: Sequence[str] = ()) -> None:
    """Prints the table and its notes, which have the reasons of verdicts. names: of columns, see `layout`."""
    made = layout(table, names)
    columns = [_word(column) for column in made.columns]
    kept = fitting(columns, console.width)
    numeric = [column.title for column in kept if column.numeric]
    drawn = make_table([column.title for column in kept], title=table.table, numeric=numeric)
    for column, width in zip(drawn.columns, _widths(kept, console.width), strict=True):
        column.width = width
    for place in range(len(table.rows)):
        drawn.add_row(*(cell(column.cells[place]) for column in kept))
    console.print(drawn)
    left = [column.title for column in columns if column not in kept]
    verdicts = next((column.cells for column in made.columns if column.name == "verdict"), [])
    reasons = [f"{short_id(line.id)}: {text}" for line, text in zip(table.rows, verdicts) if ": " in text]
    more = [f"left out, {console.width} columns are too few: {', '.join(left)} (--columns, --format md)"] if left else []
    for note in (*more, *made.notes, *reasons, *table.notes):
        console.print(visible(f"note: {note}"), markup=False)


def show_ladder(console: Console, found: Ladder) -> None:
    """Prints a table at several sizes."""
    lines = [dict(zip(found.HEADS, row, strict=True)) for row in found.cells()]
    console.print(filled_table(lines, title=found.title, numeric=("parameters",)))
    for note in found.notes:
        console.print(visible(f"note: {note}"), markup=False)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns without the least important ones, until the rest fits. The name of the row always stays."""
    kept = list(columns)
    for column in sorted((column for column in columns if column.name != "row"), key=_importance):
        if sum(_least(each) + 3 for each in kept) + 1 <= width:
            break
        kept.remove(column)
    return kept


def _importance(column: Column) -> tuple[int, int]:
    if column.name in FIRST_TO_GO:
        return 0, FIRST_TO_GO.index(column.name)
    if not column.ours:
        return 1, 0
    return (3, LAST_TO_GO.index(column.name)) if column.name in LAST_TO_GO else (2, 0)


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Width of each column: `_least`, and equal shares of the remaining room for texts that are longer."""
    found, spare = list(map(_least, columns)), width - 1 - sum(_least(column) + 3 for column in columns)
    longer = sorted((_longest(column) - found[i], i) for i, column in enumerate(columns))
    for place, (more, i) in enumerate(longer):
        share = max(0, min(more, spare // (len(columns) - place)))
        found[i], spare = found[i] + share, spare - share
    return found


def _longest(column: Column) -> int:
    """The width that needs no folding, except of a head above text."""
    return max(map(len, (*([column.title] if column.numeric else column.title.split()), *column.cells)))


def _least(column: Column) -> int:
    """The width below which a column is hard to read: numbers are not folded, and no word is."""
    if column.numeric or column.name == "row":
        return _longest(column)
    words = max(len(word) for text in (column.title, *column.cells) for word in text.split())
    return max(words, min(_longest(column), 18))  # long texts are folded
