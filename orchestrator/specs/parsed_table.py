"""A parsed table, before its specs are validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.specs.check import defaults
from orchestrator.specs.claims import Claim
from orchestrator.specs.grid.assignments import ConflictError, apply, assignments
from orchestrator.specs.grid.combinations import Grid
from orchestrator.specs.positions import Document, Located, Position
from orchestrator.specs.scorings import Figures
from orchestrator.specs.table import SEGMENT, RowHead, SweepSpec, TableSource
from orchestrator.specs.templates import Template


@dataclass
class ParsedRow:
    """A row before validation of its spec: head, merged sections, position, and the file's figures merged with its own."""

    name: str
    head: RowHead
    spec: Located
    position: Position
    figures: Figures


@dataclass
class TableFile:
    """A parsed file. `problems` holds complete error lines; with problems, the other fields may be incomplete."""

    path: Path
    document: Document
    source: TableSource | None = None
    shared: Located = field(default_factory=lambda: Located(defaults(), Position("", ())))
    assumed: list[str] = field(default_factory=list)
    written: dict[str, ParsedRow] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    sweep: SweepSpec | None = None
    columns: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    grid: Grid | None = None
    claims: list[Claim] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def rows(self) -> Mapping[str, ParsedRow]:
        """The rows written in the file, and one for each combination of its grid."""
        return self.written if self.grid is None else GridRows(self, self.grid)

    @property
    def address(self) -> str:
        """`paper/table`, or `local/STEM` if the file names no source."""
        if self.source is not None:
            return f"{self.source.paper}/{self.source.table}"
        return f"local/{self.path.stem if SEGMENT.fullmatch(self.path.stem) else 'table'}"

    @property
    def is_single(self) -> bool:
        """Whether the file is a single resolved row printed by `show`."""
        return "spec" in self.document.data or "id" in self.document.data


class GridRows(Mapping[str, ParsedRow]):
    """Row name -> row before validation: the rows written in the file, then those of its grid, built when asked for."""

    def __init__(self, table: TableFile, grid: Grid) -> None:
        self.table, self.grid = table, grid

    def __getitem__(self, name: str) -> ParsedRow:
        """Raises UserError if two axes set one key."""
        table, section, position = self.table, self.grid.section, self.grid.position
        if name in table.written:
            return table.written[name]
        values = self.grid.combinations()[name]
        try:
            spec = apply(assignments(values), table.shared)
        except ConflictError as error:
            raise UserError(str(error)) from None
        spec.home = Position(position.where, ("grid",))
        label = ", ".join(value.shown for value in values if value.id) or "as the file's sections"
        head = RowHead(label=label, init_from=section.init_from, workers=section.workers, assumed=section.assumed)
        return ParsedRow(name, head, spec, position, table.figures)

    def __contains__(self, name: object) -> bool:
        return name in self.table.written or name in self.grid.combinations()

    def __iter__(self) -> Iterator[str]:
        yield from self.table.written
        yield from self.grid.combinations()

    def __len__(self) -> int:
        return len(self.table.written) + len(self.grid.combinations())

    def __bool__(self) -> bool:
        return True  # without listing the combinations
