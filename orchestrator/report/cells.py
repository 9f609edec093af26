"""A table as columns of text cells, which all formats share, and the choice of shown columns: the requested or the informative ones."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from orchestrator.errors import UserError
from orchestrator.report.figures import OURS, RATES, SPEEDS
from orchestrator.report.table import Line, Table
from orchestrator.scoring.rouge import PRINCIPAL, ROUGE
from orchestrator.scoring.significance.sentence_statistics import TITLES
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.row import short_id
from orchestrator.specs.table import FAILED, SCORED, number

_TITLES = OURS | {name: TITLES[name] for name in ROUGE} | {"words_per_second": "words/s", "train_hours": "training, h"}
_COUNTS = ("params", "params_added")
_SCORES = ("bleu", "delta", "bleu_spread")
_WORDS = ("against", "verdict", "nll", "chrf_delta", "parts", "controls")


@dataclass(frozen=True)
class Column:
    """One column as text. name: name of its figure (`bleu`). ours: measured, not reported. numeric: it has numbers."""

    name: str
    title: str
    cells: list[str]
    ours: bool = True
    numeric: bool = False


def columns(table: Table) -> list[Column]:
    """Returns every column. A figure that is both reported and measured has two columns. Conditions and status are last."""
    reported = {c for c in table.columns if any(line.reported.get(c) is not None for line in table.rows)}
    with_bleu = PRINCIPAL not in table.scores or "bleu" in reported or any(map(failed, table.rows))
    hidden = {*RATES, "significant", *(() if with_bleu else ("bleu",))}
    mine = ({*OURS} - hidden) | table.scores | (reported & {"significant"})
    found = [
        Column("row", "row", [line.id.removeprefix(f"{table.address}/") for line in table.rows]),
        Column("system", "system", [x.label for x in table.rows]),
    ]
    for name in table.columns:
        title, figures = _title(name, table), name not in _WORDS
        if name in reported:
            found.append(Column(name, f"{title} (paper)", [_cell(table, line, name, False) for line in table.rows], False, figures))
        cells = [_cell(table, line, name, True) for line in table.rows] if name in mine else []
        if any(cells):
            found.append(Column(name, f"{title} (ours)" if name in reported else title, cells, numeric=figures))
    if any(column.ours for column in found[2:]):
        conditions = [_conditions(line) for line in table.rows]
        found += [Column(name, name, [each[i] for each in conditions]) for i, name in enumerate(("data", "steps", "seeds"))]
    return [*found, Column("status", "status", [state(line) for line in table.rows])]


def state(line: Line) -> str:
    """Returns the status of a row: `done`, `done (shipped)`, `not run`, `quoted`, `external: fairseq 0.12.2`, or why it has no figures."""
    if line.kind not in SCORED:
        kind = f"{line.kind} ({line.analysis})" if line.analysis else line.kind
        return f"{kind}: {line.note}" if line.note else kind
    if line.ours is None:
        return "not run" if line.kind == "run" else "external: not added"
    if line.ours.status != "done":
        return line.ours.reason
    if line.kind == "external":
        return f"external: {line.ours.system}" if line.ours.system is not None else "external"
    if line.ours.same_as is not None:
        return f"done: it is {short_id(line.ours.same_as)}"
    alike = defaultdict[str, list[int]](list)
    for seed, why in line.ours.unfinished.items():
        alike[why].append(int(seed))
    unfinished = (f"{'seeds' if len(seeds) > 1 else 'seed'} {seed_list(seeds)} {why}" for why, seeds in alike.items())
    return "; ".join(["done (shipped)" if line.ours.shipped else "done", *unfinished])


def failed(line: Line) -> bool:
    """Returns True if the row failed by its own rule (`failed_below`), which is shown in place of its BLEU."""
    return line.ours is not None and line.ours.failed_as_stated


def figure(column: str, value: Any) -> str:
    """Formats a measured value: 88.00M, 27.64, +0.30, 1,234, yes or no."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in _COUNTS:
        sign = "+" if column == "params_added" else ""
        return f"{value / 1e6:{sign}.2f}M" if abs(value) >= 1e5 else f"{value:{sign},}"
    if column in (*_SCORES, *SPEEDS):
        return f"{value:+.2f}" if column == "delta" else f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _title(column: str, table: Table) -> str:
    title = _TITLES.get(column, column.replace("_", " "))
    return f"{title} × {table.base.removeprefix(table.address + '/')}" if column in SPEEDS and table.base is not None else title


def _conditions(line: Line) -> list[str]:
    """Returns cells with corpus, updates and seeds; empty for a row without figures."""
    ours = line.ours
    if ours is None or (ours.bleu is None and not failed(line)):
        return ["", "", ""]
    steps = ours.steps if len(set(ours.steps)) > 1 else ours.steps[:1]
    return [ours.data or "", ", ".join(f"{step:,}" for step in steps), seed_list(ours.seeds)]


def _cell(table: Table, line: Line, column: str, ours: bool) -> str:
    if ours:
        return FAILED if column == "bleu" and failed(line) else _measured(line, column)
    value = line.reported.get(column)
    if value is None or isinstance(value, bool):
        return figure(column, value)
    if column in SPEEDS and (speed := number(table.base_reported.get(column))):
        return f"{(number(value) or 0.0) / speed:.2f}"
    if isinstance(value, float):
        written = [repr(each) for row in table.rows if isinstance(each := row.reported.get(column), float)]  # YAML drops trailing zeros
        digits = 2 if column in {*table.scores, *_SCORES} else max(len(each.partition(".")[2]) for each in written)
        return f"{value:{'+' if column == 'delta' else ''}.{digits}f}"
    return str(value)


def _measured(line: Line, column: str) -> str:
    """Returns a measured figure: BLEU with its standard deviation over seeds, delta with its interval, or the verdict in words."""
    ours, own, nll, effect = line.ours, line.judged.own, line.judged.nll, line.judged.effect
    words = {
        "significant": figure(column, None if own is None else own.significant_gain),
        "verdict": "" if own is None else own.said,
        "nll": "" if nll is None else nll.plain,
        "against": "" if effect is None else short_id(effect.against),
        "chrf_delta": "" if own is None or own.chrf is None else own.chrf.interval,
        "parts": "" if effect is None else effect.shares,
        "controls": "; ".join(f"{each.interval} to {short_id(each.against)}" for each in (own.effects[1:] if own is not None else ())),
    }
    if column in words or ours is None:
        return words.get(column, "")
    if column not in OURS:  # a score may have the name of another field
        return figure("bleu", ours.scores.get(column))
    text = figure(column, getattr(ours, column))
    if column == "bleu" and ours.bleu_spread is not None:
        return f"{text} ± {ours.bleu_spread:.2f}"
    return effect.interval if column == "delta" and effect is not None else text


def seed_list(seeds: Sequence[int]) -> str:
    """Returns `1-3, 7`: three or more consecutive seeds are shown by first and last."""
    runs = [[seed for _, seed in run] for _, run in groupby(enumerate(seeds), lambda each: each[1] - each[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


ALL = "all"
LEFT_OUT = ("params_added", "controls")
"""Columns that are shown only on request."""
ALWAYS = ("row", "system", "bleu", "delta", "verdict", "nll", "status")


@dataclass(frozen=True)
class Layout:
    """The columns to show. same: title -> text of the columns that are left out because all rows with figures agree. rows: which rows.

    scores: names of the columns whose highest value is the best; none if rows have several corpora.
    """

    columns: list[Column]
    same: Mapping[str, str]
    scores: frozenset[str] = frozenset()
    rows: str = "all rows"

    @property
    def notes(self) -> list[str]:
        """Returns one line about the values that all rows share, if any."""
        return [f"in {self.rows}: {', '.join(f'{title} {text}' for title, text in self.same.items())}"] if self.same else []

    def best(self, column: Column) -> set[int]:
        """Returns the places of our highest score among the rows that run, for bold type; empty for other columns."""
        if not column.ours or column.name not in self.scores:
            return set()
        values = {place: float(cell.split()[0]) for place, cell in enumerate(column.cells) if re.match(r"\d+(\.\d+)?( |$)", cell)}
        return {place for place, value in values.items() if len(values) > 1 and value == max(values.values())}

    @property
    def bold_notes(self) -> list[str]:
        """Returns the note on bold figures, if there are any."""
        return ["bold: the highest of ours; a verdict says whether it differs"] if any(map(self.best, self.columns)) else []


def layout(table: Table, names: Sequence[str] = ()) -> Layout:
    """Chooses columns.

    names: names of columns, in their order. A name shows the paper's column and ours; `all` shows every column. Default: all columns
        except added parameters, other controls, speeds without a measurement and columns with equal values in all rows.

    UserError for a name that the table does not have.
    """
    found, corpora = columns(table), {line.ours.data for line in table.rows if line.ours is not None and line.score is not None}
    scores = frozenset(("bleu", "chrf", *ROUGE, *table.scores) if len(corpora) == 1 else ())
    if names:
        known = list(dict.fromkeys(column.name for column in found))
        for name in names:
            if name not in (*known, ALL):
                raise UserError(f"--columns {shown(name)}: {table.table} has no such column; {nearest(name, [*known, ALL])}")
        chosen = found if ALL in names else [column for name in dict.fromkeys(names) for column in found if column.name == name]
        return Layout(with_units(chosen), {}, scores)
    measured = {column.name for column in found if column.ours}
    kept = [c for c in found if c.name not in LEFT_OUT and not (c.name in SPEEDS and c.name not in measured)]
    if kept[0].cells == kept[1].cells:
        del kept[1]
    same = {c.title: c.cells[0] if c.cells[0] else next(filter(None, c.cells)) for c in kept if _constant(c)}
    rows = "all rows" if all(line.score is not None for line in table.rows) else "all rows with figures"
    return Layout(with_units([c for c in kept if c.title not in same]), same, scores, rows)


def with_units(found: Sequence[Column]) -> list[Column]:
    """Moves the M of parameters to the head of its columns if all their cells have it: `params, M` instead of 88.0M in each."""
    others = {c.name for c in found if c.name not in _COUNTS or not all(cell.endswith("M") for cell in c.cells if cell)}
    return [c if c.name in others else _in_millions(c) for c in found]


def _in_millions(column: Column) -> Column:
    base, bracket, rest = column.title.partition(" (")
    return replace(column, title=f"{base}, M{bracket}{rest}", cells=[cell.removesuffix("M") for cell in column.cells])


def _constant(column: Column) -> bool:
    """Returns whether a column may be left out: it has at least two non-empty cells, and all of them are equal."""
    filled = [cell for cell in column.cells if cell]
    return column.name not in ALWAYS and len(filled) > 1 and len(set(filled)) == 1
