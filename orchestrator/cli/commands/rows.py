"""Rows and ledgers that commands work on."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.paths import PUBLISHED_LEDGER
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.options import RowOptions


def published_ledgers() -> list[Path]:
    """Read-only ledgers that come with the product."""
    return [PUBLISHED_LEDGER] if PUBLISHED_LEDGER.is_dir() else []


def open_ledger(results: Path) -> Ledger:
    """The ledger of `--results`, with the published results behind it."""
    return Ledger(results, published_ledgers())


def resolve_one(target: str, seed: int | None, options: RowOptions) -> Row:
    """The only row of `target` that runs. UserError for none or several."""
    rows = [row for row in resolve(target, sets=options.sets, profile=options.profile, seed=seed) if row.kind == "run"]
    if len(rows) != 1 or rows[0].spec is None:
        raise UserError(f"{target}: found {len(rows)} rows that run; expected one: {', '.join(row.id for row in rows[:24])}")
    return rows[0]
