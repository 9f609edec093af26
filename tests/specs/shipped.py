"""Every table under `search_spaces`: files, addresses, rows."""

import functools

from orchestrator.specs import index
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve

NOT_THE_PAPERS = "not in the paper"
"""Stands in the label of a row of our own in a paper's table."""

FILES = index.table_files()
TABLES = sorted(address for address, table in index.tables()[0].items() if table.grid is None)
"""Addresses. Tables with a grid are left to test_fusion_grid."""


@functools.cache
def rows(address: str, profile: str | None = None) -> list[Row]:
    return resolve(address, profile=profile, seed=None if profile is None else 3)


@functools.cache
def papers() -> frozenset[str]:
    """Papers whose tables state reported figures; other folders hold tables of one's own."""
    return frozenset(address.split("/")[0] for address in TABLES if any(row.expect for row in rows(address)))
