"""Which rows others need, as far as the tables under `search_spaces` say."""

from __future__ import annotations

from orchestrator.errors import UserError
from orchestrator.lifecycle.garbage import Needs
from orchestrator.specs import index, links
from orchestrator.specs.grid import named_rows


def of_tables() -> Needs:
    """Rows that others start from (`init_from`) and that analyses look at (`of`). A table with an error says nothing."""
    parents: set[str] = set()
    analysed: set[str] = set()
    for table in index.tables()[0].values():
        for raw in named_rows.apart(table):
            try:
                analysed |= set(links.subjects(table, raw))
                if raw.figures.analysis is not None and raw.head.kind == "run":
                    analysed |= {f"{table.address}/{name}" for name in named_rows.alike(table, raw)}
                if raw.head.init_from is not None:
                    home, name = links.parent(table, raw)
                    parents.add(f"{home.address}/{name}")
            except UserError:
                continue
    return Needs(frozenset(parents), frozenset(analysed))
