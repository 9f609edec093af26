"""Which columns of a table are shown, so that it fits a page: the asked ones, or those that say something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.report.cells import Column, columns
from orchestrator.report.speeds import SPEEDS
from orchestrator.report.table import Table
from orchestrator.specs.positions import nearest, shown

ALL = "all"
LEFT_OUT = ("params_added", "pareto")
"""Columns that are shown only when they are asked for."""
ALWAYS = ("row", "system", "bleu", "delta", "verdict", "status")


@dataclass(frozen=True)
class Layout:
    """The columns to show. same: title -> text of those left out because all rows that have figures agree in them."""

    columns: list[Column]
    same: Mapping[str, str]

    @property
    def notes(self) -> list[str]:
        """One line about what all rows share; none without."""
        return [f"in all rows: {', '.join(f'{title} {text}' for title, text in self.same.items())}"] if self.same else []

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
    found = columns(table)
    if names:
        known = list(dict.fromkeys(column.name for column in found))
        for name in names:
            if name not in (*known, ALL):
                raise UserError(f"--columns {shown(name)}: {table.table} has no such column; {nearest(name, [*known, ALL])}")
        chosen = found if ALL in names else [column for name in dict.fromkeys(names) for column in found if column.name == name]
        return Layout(chosen, {})
    measured = {column.name for column in found if column.ours}
    kept = [c for c in found if c.name not in LEFT_OUT and not (c.name in SPEEDS and c.name not in measured)]
    if kept[0].cells == kept[1].cells:
        del kept[1]
    same = {c.title: c.cells[0] if c.cells[0] else next(filter(None, c.cells)) for c in kept if _constant(c)}
    return Layout([c for c in kept if c.title not in same], same)


def _constant(column: Column) -> bool:
    """Whether all cells that are not empty agree; the status does only if none is empty, as none is."""
    filled = [cell for cell in column.cells if cell]
    return column.name not in ALWAYS and len(filled) > 1 and len(set(filled)) == 1
