"""`noise`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from orchestrator.cli.commands.rows import open_ledger
from orchestrator.cli.commands.run import execute_rows
from orchestrator.cli.output import console, print_json
from orchestrator.errors import UserError
from orchestrator.report import noise_floor
from orchestrator.report.find import Finder
from orchestrator.scoring.significance.sentence_statistics import TITLES
from orchestrator.specs.row import table_of
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.sweeps.names import sweep_name
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data
from orchestrator.tables import make_table


def noise(target: str, seeds: int, options: ExecutionOptions) -> None:
    """Runs one row with seeds 1 to `seeds`, writes its noise floor to the ledger and prints it."""
    rows = [row for row in resolve(target, sets=options.sets, profile=options.profile) if row.kind == "run"]
    if len(rows) != 1:
        raise UserError(f"{target}: found {len(rows)} rows; expected one row, the baseline")
    row, wanted = rows[0], list(range(1, seeds + 1))
    scheduler = sweep_of(_table(target, row.id), options.profile).scheduler.model_dump() | {"kind": "fifo", "retrain": None}
    name = f"{sweep_name(row.id, options.profile, options.sets)}:noise"
    execute_rows(rows, wanted, replace(options, name=name, sweep={"scheduler": scheduler}))
    finder = Finder(open_ledger(options.results), Data(options.data_dir, options.cache_dir))
    table = [other for other in resolve(_table(target, row.id), sets=options.sets, profile=options.profile) if other.kind == "run"]
    outcomes = {other.id: finder.outcomes(other, wanted if other.id == row.id else ()) for other in table}
    record = noise_floor.measure(row, table, outcomes, finder.reader)
    if not record["metrics"]:
        raise UserError(f"{row.id}: found no two finished seeds; expected at least two")
    noise_floor.save(finder.ledger, record)
    if options.as_json:
        print_json(record)
    _print(record, options)


def _table(target: str, row_id: str) -> str:
    """The table of a row as `resolve` takes it: its file where the row was named by file, or its address."""
    return target.partition("#")[0] if "#" in target else table_of(row_id)


def _print(record: dict[str, Any], options: ExecutionOptions) -> None:
    columns = ("metric", "mean", "sd over seeds", "se over sentences", "range of rows", "range / sd")
    table = make_table(columns, title=f"{record['row']}, {record['seeds']} seeds", numeric=columns[1:])
    for name, found in record["metrics"].items():
        digits = 4 if name == "nll" else 2
        values = (found[key] for key in ("mean", "sd", "sentences", "range", "signal_to_noise"))
        table.add_row(TITLES[name], *("" if value is None else f"{value:.{digits}f}" for value in values))
    console(stderr=options.as_json).print(table)
