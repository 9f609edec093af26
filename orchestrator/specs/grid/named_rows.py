"""Grid combinations as rows of their file: found by name like other rows, and built on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs.grid.assignments import ConflictError, apply, assignments
from orchestrator.specs.grid.combinations import Combination, Grid, read_grid
from orchestrator.specs.parsed_table import ParsedRow, TableFile
from orchestrator.specs.positions import Position
from orchestrator.specs.scorings import Figures
from orchestrator.specs.table import RowHead


class GridRows(dict[str, Any]):
    """Row name -> ParsedRow: first the rows written in the file, then one per combination of its grid."""

    def __init__(self, table: TableFile, grid: Grid) -> None:
        super().__init__()
        self.table, self.grid, self.written = table, grid, table.rows

    def __contains__(self, name: object) -> bool:
        return name in self.written or name in self.grid.combinations()

    def __getitem__(self, name: str) -> ParsedRow:
        if name in self.written:
            return self.written[name]
        return parsed(self.table, name, self.grid.combinations()[name])

    def __iter__(self) -> Iterator[str]:
        yield from self.written
        yield from self.grid.combinations()

    def __len__(self) -> int:
        return len(self.written) + len(self.grid.combinations())

    def __bool__(self) -> bool:
        return True

    def keys(self) -> Any:
        return list(self)

    def values(self) -> Any:
        return (self[name] for name in self)

    def items(self) -> Any:
        return ((name, self[name]) for name in self)


def fill(table: TableFile) -> None:
    """Reads the `grid` section if the file has one, and adds its problems to the file's."""
    if table.document.data.get("grid") is None or not isinstance(table.document.data["grid"], dict):
        return
    table.grid = read_grid(table.document, table.problems)
    if table.grid is None:
        return
    table.rows = GridRows(table, table.grid)


def problems_of(table: TableFile) -> list[str]:
    """Returns problems with the names of combinations. Not part of reading the file, because listing them takes time."""
    assert table.grid is not None and isinstance(table.rows, GridRows)
    try:
        names = table.grid.combinations()
    except UserError as error:
        return error.lines
    taken = [name for name in table.rows.written if name in names]
    problems = []
    if taken:
        problems.append(
            table.grid.position.line(f"found combinations with the names of rows: {', '.join(taken[:8])}; expected other names")
        )
    if table.grid.section.init_from is not None and table.grid.section.init_from in names:
        position = table.document.at(("grid", "init_from"))
        problems.append(position.line("found a combination of the grid itself; expected a row under rows, or one of another table"))
    return problems


def distinct_rows(table: TableFile) -> Iterator[ParsedRow]:
    """Yields the rows whose references to other rows differ: all written rows, and one for all rows of a grid."""
    if not isinstance(table.rows, GridRows):
        yield from table.rows.values()
        return
    yield from table.rows.written.values()
    try:
        name = next(iter(table.rows.grid.combinations()), None)
        made = None if name is None else table.rows[name]
    except UserError:
        return
    if made is not None:
        yield made


def represented(table: TableFile, row: ParsedRow) -> list[str]:
    """Returns the names of the rows that `row` represents in `distinct_rows`."""
    made = isinstance(table.rows, GridRows) and row.name not in table.rows.written
    return list(table.grid.combinations()) if made and table.grid is not None else [row.name]


def label(values: Combination) -> str:
    """Returns the label of a row, as in `aggregation linear, side both, depth 12`."""
    return ", ".join(value.shown for value in values if value.id) or "as the file's sections"


def head(grid: Grid, values: Combination) -> RowHead:
    """Returns the head of the row of a combination."""
    section = grid.section
    return RowHead(label=label(values), init_from=section.init_from, workers=section.workers, assumed=section.assumed)


def parsed(table: TableFile, name: str, values: Combination) -> ParsedRow:
    """Returns the row before validation. Raises UserError if two axes set one key."""
    assert table.grid is not None
    try:
        merged = apply(assignments(values), table.shared)
    except ConflictError as error:
        raise UserError(str(error)) from None
    merged.home = Position(table.grid.position.where, ("grid",))
    return ParsedRow(name, head(table.grid, values), merged, table.grid.position, table.figures if table.figures is not None else Figures())
