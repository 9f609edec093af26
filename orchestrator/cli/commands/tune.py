"""`sweep --tune`: searches every arm of a table, then trains and judges each arm's best configuration with fresh seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.cli.output import console
from orchestrator.engines.execute import execute, session, suggest_of
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.report.figures import short_id
from orchestrator.safe_text import log
from orchestrator.specs import table_file, yaml_file
from orchestrator.specs.base import Strict
from orchestrator.specs.row import Row
from orchestrator.specs.table_file import TableFile
from orchestrator.specs.tune import TuneSpec
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.tables import cell, make_table
from orchestrator.tuning import choice
from orchestrator.tuning.search import Search
from orchestrator.tuning.trials import Tuning

Records = list[dict[str, Any]]


class _TuneFile(Strict):
    """A file with a section `tune` alone."""

    tune: TuneSpec


def tuning_of(tables: Sequence[TableFile], file: Path | None) -> Tuning:
    """The section of `--tune-with`, else that of the only table. UserError if there is none."""
    if file is not None:
        document = yaml_file.load(file)
        head = table_file.head_of(document, (), _TuneFile)
        if head is None:
            raise UserError(*document.problems)
        return Tuning(head.tune, document.at)
    if len(tables) != 1 or tables[0].tune is None:
        names = ", ".join(table.address for table in tables)
        raise UserError(f"--tune: {names}: found no section `tune`; expected one in the file, or --tune-with FILE.yaml")
    return Tuning(tables[0].tune, tables[0].document.at)


def check(tuning: Tuning, options: ExecutionOptions) -> None:
    """UserError for what `--tune` does not go with."""
    if options.scheduler["kind"] != "fifo":
        raise UserError(
            "--tune: found a scheduler that compares rows; expected fifo: a search ends trials within their row alone (tune.stop)"
        )
    if options.until_decided:
        raise UserError("--tune: found --until-decided too; expected one of them")


def nothing(rows: list[Row], seeds: list[int], options: ExecutionOptions) -> Records:
    """Trains nothing: for a search whose trials are only made."""
    return []


def search_arms(rows: list[Row], tuning: Tuning, options: ExecutionOptions, run: Callable[..., Records]) -> Records:
    """Searches the arms and writes their records, which it returns. Prints what was found. UserError if a value does not fit an arm."""
    ledger = Ledger(options.results, list(options.mirrors))
    search = Search(tuning, run, options, ledger, suggest_of(tuning.spec.sampler))
    arms = search.arms(rows)
    log(f"searching {len(arms)} arms: {tuning.spec.trials} trials each with seeds {', '.join(map(str, tuning.spec.seeds.search))}")
    search.run(arms)
    failed = {
        reason for r in search.records.values() if r["status"] == "failed" for reason in [f"{r['id']} seed {r['seed']}: {r['reason']}"]
    }
    if failed:
        raise UserError(*sorted(failed), "the search has failed runs; the same command trains them again")
    records = [choice.record_of(arm, search) for arm in arms]
    for record in records:
        choice.write(ledger, record)
    show(records)
    return records


def show(records: Records) -> None:
    """A table of the arms on stderr, and their warnings."""
    heads = ("arm", "trials", "as written", "best", "chosen values", "updates", "device-hours")
    metric = records[0]["tune"]["select"]
    table = make_table(heads, title=f"search by {metric}", numeric=("trials", "as written", "best", "updates", "device-hours"))
    for record in records:
        chosen = record["trials"][record["chosen"]] if record["chosen"] is not None else None
        written = record["trials"][0]["value"]
        table.add_row(
            cell(short_id(record["row"])),
            str(len(record["trials"])),
            "" if written is None else f"{written:.4f}",
            "" if chosen is None else f"{chosen['value']:.4f}",
            cell(choice.said(record)),
            f"{record['updates']:,}",
            f"{record['seconds'] / 3600:.2f}",
        )
    console(stderr=True).print(table)
    for record in records:
        for line in record["warnings"]:
            log(f"warning: {short_id(record['row'])}: {line}")


def execute_tuned(rows: list[Row], tuning: Tuning, options: ExecutionOptions, run: Callable[..., Records]) -> Records:
    """Searches, then runs the tuned rows with the judging seeds. Returns the records of these runs."""
    with session(options, rows):
        records = search_arms(rows, tuning, options, lambda *arguments: run(execute, *arguments))
        by_id = {record["row"]: record for record in records}
        tuned = [choice.apply(row, by_id[row.id]) for row in rows]
        judged = replace(options, name=f"{options.name}:tuned", sweep={**(options.sweep or {}), "scheduler": {"kind": "fifo"}})
        return run(execute, tuned, list(tuning.spec.seeds.judge), judged)
