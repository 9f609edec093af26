"""Rows and ledgers that commands work on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import UserError
from orchestrator.files.folders import make, need_folder
from orchestrator.ledger.results import Ledger
from orchestrator.paths import PUBLISHED_LEDGER
from orchestrator.safe_text import log
from orchestrator.specs.controls import parse
from orchestrator.specs.index import Target, find_all
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.options import RowOptions

if TYPE_CHECKING:
    from orchestrator.sweeps.plan import Data


def published_ledgers() -> list[Path]:
    """Read-only ledgers that come with the product."""
    return [PUBLISHED_LEDGER] if PUBLISHED_LEDGER.is_dir() else []


def open_ledger(results: Path) -> Ledger:
    """The ledger of `--results`, with the published results behind it."""
    return Ledger(results, published_ledgers())


def resolve_rows(
    target: str | list[Target], options: RowOptions, *, seed: int | None = None, data: Data | None = None, preparing: bool = False
) -> list[Row]:
    """The rows of `target` with their matched controls; prints which of these could not be resolved. See `cost.controls.resolve`."""
    given, found = parse(options.controls), find_all(target)
    rows = None
    if found[0].control is None:
        rows = resolve(found, sets=options.sets, profile=options.profile, seed=seed)
        if given is None and not any(row.controls for row in rows):
            return rows
    # deferred: they import torch and numpy, which `show` and `list` do without
    from orchestrator.cost import controls
    from orchestrator.sweeps.plan import Data

    need_folder(options.data_dir, "--data-dir")
    if preparing:
        make(options.cache_dir, "--cache-dir")
    data = data or Data(options.data_dir, options.cache_dir)
    rows, left_out = controls.resolve(
        found, data, sets=options.sets, profile=options.profile, seed=seed, given=given, preparing=preparing, named=rows
    )
    for line in left_out:
        log(line)
    return rows


def resolve_one(target: str, seed: int | None, options: RowOptions) -> Row:
    """The only row of `target` that runs. UserError for none or several."""
    return only(target, resolve_rows(target, options, seed=seed))


def only(target: object, rows: list[Row]) -> Row:
    """The only one of `rows`, those of `target`, that runs. UserError for none or several."""
    found = [row for row in rows if row.kind == "run"]
    if len(found) != 1:
        raise UserError(f"{target}: found {len(found)} rows that run; expected one: {', '.join(row.id for row in found[:24])}")
    return found[0]
