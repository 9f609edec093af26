"""What `run` and `sweep` say when they are over: names of the rows, and what to look at next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.options import RESULTS
from orchestrator.ledger import mirrored

if TYPE_CHECKING:
    from orchestrator.specs.row import Row


def labels(rows: list[Row]) -> dict[str, str]:
    """Of the rows and of those that they start from."""
    labels: dict[str, str] = {}
    for row in rows:
        current: Row | None = row
        while current is not None:
            labels.setdefault(current.id, current.label)
            current = current.parent
    return labels


def next_steps(out: Any, rows: list[Row], results: Path, profile: str) -> None:
    from orchestrator.safe_text import visible

    where = "" if results == RESULTS else f" --results {visible(mirrored.shown(results))}"
    tables = list(dict.fromkeys("/".join(row.id.split("/")[:2]) for row in rows))
    out.print(f"MLflow UI:  nmt-ablate ui{where}", markup=False)
    out.print(f"one row:    nmt-ablate show {rows[0].id}{profile}", markup=False)
    for address in tables:
        out.print(f"the table:  nmt-ablate table {address}{profile}{where}", markup=False)
