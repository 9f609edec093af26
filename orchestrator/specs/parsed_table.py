"""A parsed table, before its specs are validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.specs.check import defaults
from orchestrator.specs.claims import Claim
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
    rows: dict[str, ParsedRow] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    sweep: SweepSpec | None = None
    columns: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    grid: Grid | None = None
    claims: list[Claim] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

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
