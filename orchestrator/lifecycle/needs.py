"""Which rows others need, as far as the tables under `search_spaces` say."""

from __future__ import annotations

from orchestrator import row_grid, row_index, row_links
from orchestrator.errors import UserError
from orchestrator.lifecycle.garbage import Needs


def of_tables() -> Needs:
    """Rows that others start from (`init_from`) and that analyses look at (`of`). A table with an error says nothing."""
    parents: set[str] = set()
    analysed: set[str] = set()
    for table in row_index.tables()[0].values():
        for raw in row_grid.apart(table):
            try:
                analysed |= set(row_links.subjects(table, raw))
                if raw.figures.analysis is not None and raw.head.kind == "run":
                    analysed |= {f"{table.address}/{name}" for name in row_grid.alike(table, raw)}
                if raw.head.init_from is not None:
                    home, name = row_links.parent(table, raw)
                    parents.add(f"{home.address}/{name}")
            except UserError:
                continue
    return Needs(frozenset(parents), frozenset(analysed))
