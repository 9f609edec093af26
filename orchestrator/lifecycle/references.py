"""Rows that other rows or analyses refer to, from the tables under `search_spaces`."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.specs import index, row_references
from orchestrator.specs.grid import named_rows


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
        for parsed in named_rows.distinct_rows(table):
            try:
                analysed |= set(row_references.subjects(table, parsed))
                if parsed.figures.analysis is not None and parsed.head.kind == "run":
                    analysed |= {f"{table.address}/{name}" for name in named_rows.represented(table, parsed)}
                if parsed.head.init_from is not None:
                    home, name = row_references.parent(table, parsed)
                    parents.add(f"{home.address}/{name}")
            except UserError:
                continue
    return RunReferences(frozenset(parents), frozenset(analysed))
