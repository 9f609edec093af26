"""Resolves all rows of a grid, each like a row written in the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.errors import UserError
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.resolver import Resolver, UnfitError
from orchestrator.specs.row import Row

MOST_LINES = 20


@dataclass
class Assembled:
    """Rows of a grid. refused: name of each combination that components refuse -> error line."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def assemble(table: TableFile, resolver: Resolver) -> Assembled:
    """Returns the rows of the table's grid under the resolver."""
    assert table.grid is not None
    found, lines = Assembled(), dict[str, None]()
    for name in table.grid.combinations():
        try:
            found.rows.append(resolver.row(table, name))
        except UnfitError as error:
            found.refused[name] = error.lines[0]
        except UserError as error:
            lines |= dict.fromkeys(error.lines)
    if table.grid.section.unfit == "error":
        lines |= dict.fromkeys(found.refused.values())
    table.grid.refused = found.refused
    found.problems = list(lines)[:MOST_LINES]
    if len(lines) > MOST_LINES:
        found.problems.append(f"{table.grid.position.where}: grid: and {len(lines) - MOST_LINES} problems more")
    if not found.rows and not lines:
        found.problems = [table.grid.position.line("every combination is excluded; expected at least one row")]
    return found
