"""A table as LaTeX: a float with caption and label that is never wider than the line, of both columns if it needs them; notes below."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from orchestrator.report.cells import Column, state
from orchestrator.report.figures import short_id
from orchestrator.report.layout import layout
from orchestrator.report.notes import VERDICTS
from orchestrator.report.table import Table
from orchestrator.safe_text import visible

_TEX = (
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {"|": r"\textbar{}", "†": r"\textdagger{}", "*": r"\textasteriskcentered{}", "×": r"$\times$", "±": r"$\pm$"}
    | {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "⇑": r"$\Uparrow$", "⇓": r"$\Downarrow$"}
    | {c: f"\\{c}" for c in "&%$#_{}"}
)
"""Characters that LaTeX needs escaped, or (`<`, `>`, `|`) shows as others in its default font encoding."""
_MINUS, _RANGE = re.compile(r"(?<![\w.)-])-(?=\d)"), re.compile(r"(?<=\d)-(?=\d)")
_INTERVAL = re.compile(r"\((\S+) to (\S+)\)")
_SETTING = re.compile(r" \([^()]*\)(?=:|$)")
WRAPPED = 36
"""Characters from which a text is wrapped."""
COLUMN = 52
"""Characters that fit one column of a paper; a wider table spans both."""
_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def latex(table: Table, names: Sequence[str] = ()) -> str:
    """The float; it needs the packages array, booktabs and graphicx. names: see `layout`."""
    made = layout(table, names)
    if not names:  # states take much room and are few
        made = replace(made, columns=[column for column in made.columns if column.name != "status"])
    bold = {id(column): made.best(column) for column in made.columns}
    body = [
        " & ".join(_cell(column, place, place in bold[id(column)]) for column in made.columns) + r" \\" for place in range(len(table.rows))
    ]
    scale = next((note for note in table.notes if note.startswith("ours: ")), None)
    states = [] if names else [f"{short_id(line.id)}: {state(line)}" for line in table.rows if not state(line).startswith("done")]
    said = (*made.notes, *states, *made.bold_notes, *table.notes)
    notes = [_tex(note.replace("(.. to ..)", "[.., ..]").removesuffix(VERDICTS)) for note in said if note != scale]
    below = r" \\ ".join(notes)
    name = _tex(table.table) + (f": {_tex(scale.removeprefix('ours: '))}" if scale else "")
    beside = " The paper's figures beside ours." if any(line.reported for line in table.rows) else ""
    width = sum(2 + min(WRAPPED, max(map(len, (column.title, *column.cells)))) for column in made.columns)
    kind = "table*" if width > COLUMN else "table"
    lines = [
        f"% {visible(' '.join(table.table.split()))}: \\usepackage{{array,booktabs,graphicx}}",
        rf"\begin{{{kind}}}[tbp]",
        r"\centering",
        rf"\caption{{{name}.{beside}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9-]', '-', table.table)}}}",
        r"\smallskip",
        r"\footnotesize\setlength{\tabcolsep}{4pt}",
        _FIT,
        rf"\begin{{tabular}}{{@{{}}{''.join(map(_alignment, made.columns))}@{{}}}}",
        r"\toprule",
        *_head(made.columns),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}}",
        *([r"\par\smallskip", rf"\parbox{{\linewidth}}{{\scriptsize\raggedright {below}}}"] if notes else []),
        rf"\end{{{kind}}}",
    ]
    return "\n".join(lines) + "\n"


def _alignment(column: Column) -> str:
    long = not column.numeric and max(map(len, column.cells)) > WRAPPED
    return rf">{{\raggedright\arraybackslash}}p{{{0.4 * WRAPPED:.0f}em}}" if long else "r" if column.numeric else "l"


def _head(columns: Sequence[Column]) -> list[str]:
    """One line of titles, or two where a figure has a column of the paper's and one of ours."""
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
    text = _tex(_SETTING.sub("", shown) if column.name in ("verdict", "nll") else shown)  # the caption names the setting
    if column.numeric or not shown[:1].isalpha():
        text = _RANGE.sub("--", _MINUS.sub("$-$", text))
    text = _INTERVAL.sub(r"{\\scriptsize [\1, \2]}", text)
    first, _, rest = text.partition(" ")
    return rf"\textbf{{{first}}} {rest}".rstrip() if bold else text


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in visible(" ".join(text.split()))).replace("--", "-{}-")
