"""Rows that other rows or analyses refer to, from the tables under `search_spaces`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.specs import index, resolver
from orchestrator.specs.table_file import ParsedRow, TableFile


@dataclass(frozen=True)
class RunReferences:
    """Addresses of rows that other rows start from (`init_from`) and of rows that analyses read (`of`)."""

    parents: frozenset[str] = frozenset()
    analysed: frozenset[str] = frozenset()


def of_tables() -> RunReferences:
    """Collects the references of all tables. Rows with errors are skipped."""
    parents: set[str] = set()
    analysed: set[str] = set()
    for table in index.tables()[0].values():
        for parsed, names in _distinct(table):
            try:
                analysed |= set(resolver.subjects(table, parsed))
                if parsed.figures.analysis is not None and parsed.head.kind == "run":
                    analysed |= {f"{table.address}/{name}" for name in names}
                if parsed.head.init_from is not None:
                    home, name = resolver.parent(table, parsed)
                    parents.add(f"{home.address}/{name}")
            except UserError:
                continue
    return RunReferences(frozenset(parents), frozenset(analysed))


def _distinct(table: TableFile) -> Iterator[tuple[ParsedRow, list[str]]]:
    """Yields each written row with its name, and one row of a grid with the names of all, because they refer to the same rows."""
    found = [(row, [name]) for name, row in table.written.items()]
    with suppress(UserError):
        if table.grid is not None and (names := list(table.grid.combinations)):
            found.append((table.rows[names[0]], names))
    yield from found
