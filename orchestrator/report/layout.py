"""Which columns of a table are shown, so that it fits a page: the asked ones, or those that say something."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.errors import UserError
from orchestrator.report.cells import Column, columns
from orchestrator.report.speeds import SPEEDS
from orchestrator.report.table import Table
from orchestrator.scoring.rouge import FIGURES as ROUGE
from orchestrator.specs.positions import nearest, shown

ALL = "all"
LEFT_OUT = ("params_added", "pareto", "controls")
"""Columns that are shown only when they are asked for."""
UNITS = {"params": "M", "params_added": "M"}
"""Units at the end of each cell of a column, which its head may have instead."""
SCORES = ("bleu", "chrf", *ROUGE)
ALWAYS = ("row", "system", "bleu", "delta", "verdict", "nll", "status")


@dataclass(frozen=True)
class Layout:
    """The columns to show. same: title -> text of those left out because all rows that have figures agree in them.

    scores: names of the columns whose highest value is the best.
    """

    columns: list[Column]
    same: Mapping[str, str]
    scores: frozenset[str] = frozenset()

    @property
    def notes(self) -> list[str]:
        """One line about what all rows share, if anything."""
        return [f"in all rows: {', '.join(f'{title} {text}' for title, text in self.same.items())}"] if self.same else []

    def best(self, column: Column) -> set[int]:
        """Places of the highest score of ours among the rows that run, for formats that set them in bold; empty for other columns."""
        if not column.ours or column.name not in self.scores:
            return set()
        values = {place: float(cell.split()[0]) for place, cell in enumerate(column.cells) if re.match(r"\d+(\.\d+)?( |$)", cell)}
        return {place for place, value in values.items() if len(values) > 1 and value == max(values.values())}

    @property
    def bold_notes(self) -> list[str]:
        """What bold figures mean, if there are any."""
        return ["bold: the highest of ours; a verdict says whether it differs"] if any(map(self.best, self.columns)) else []

    @property
    def rows(self) -> list[list[str]]:
        return [list(row) for row in zip(*(column.cells for column in self.columns), strict=True)]


def layout(table: Table, names: Sequence[str] = ()) -> Layout:
    """Chooses columns.

    Args:
        names: of columns, in their order; a name shows the paper's column and ours. `all` stands for every column. By default all but
            parameters added, the Pareto front, speeds that were not measured and columns that are the same in all rows.

    UserError for a name that the table does not have.
    """
    found, scores = columns(table), frozenset((*SCORES, *table.scores))
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
    return Layout(with_units([c for c in kept if c.title not in same]), same, scores)


def with_units(found: Sequence[Column]) -> list[Column]:
    """Moves a unit to the head of its columns if all their cells have it: `params, M` instead of 88.0M in each."""
    made = list(found)
    for name, unit in UNITS.items():
        own = [c for c in made if c.name == name]
        if not all(cell.endswith(unit) for c in own for cell in c.cells if cell):
            continue
        for c in own:
            base, bracket, rest = c.title.partition(" (")
            cells = [cell.removesuffix(unit) for cell in c.cells]
            made[made.index(c)] = replace(c, title=f"{base}, {unit}{bracket}{rest}", cells=cells)
    return made


def _constant(column: Column) -> bool:
    """Whether all cells that are not empty agree; the status does only if none is empty, as none is."""
    filled = [cell for cell in column.cells if cell]
    return column.name not in ALWAYS and len(filled) > 1 and len(set(filled)) == 1
