"""`sweep --tune`: searches every arm of a table, then trains and judges each arm's best configuration with fresh seeds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from orchestrator.cli.output import console
from orchestrator.engines.execute import execute, session
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger, Record
from orchestrator.safe_text import log
from orchestrator.specs import yaml_file
from orchestrator.specs.base import Strict
from orchestrator.specs.messages import valid
from orchestrator.specs.row import Row, short_id
from orchestrator.specs.table import FAILED
from orchestrator.specs.table_file import TableFile
from orchestrator.specs.tune import TuneSpec
from orchestrator.sweeps import preflight
from orchestrator.sweeps.options import ExecutionOptions, RowOptions
from orchestrator.sweeps.row import Result
from orchestrator.sweeps.task import make_tasks
from orchestrator.tables import filled_table
from orchestrator.tuning import choice
from orchestrator.tuning.search import Search, arms_of
from orchestrator.tuning.trials import Tuning


class _TuneFile(Strict):
    """A file with only a section `tune`."""

    tune: TuneSpec


def wanted(options: RowOptions) -> bool:
    """Returns whether rows are tuned."""
    return options.tune or options.tune_with is not None


def judging(tuning: Tuning, requested: list[int] | None) -> list[int]:
    """Returns the seeds of `--seeds`, else the section's own. UserError: the search has one of them."""
    if both := sorted(set(requested or ()) & set(tuning.spec.seeds.search)):
        raise UserError(f"--seeds: found {both}, with which the search chooses; expected other seeds to judge the choice")
    return requested or list(tuning.spec.seeds.judge)


def tuning_of(tables: Sequence[TableFile], file: Path | None) -> Tuning:
    """Returns the section of `--tune-with`, else the section of the only table. UserError: there is none."""
    if file is not None:
        document = yaml_file.load(file)
        return Tuning(valid(document, _TuneFile).tune, document.at)
    if len(tables) != 1 or tables[0].head.tune is None:
        names = ", ".join(table.address for table in tables)
        raise UserError(f"--tune: {names}: found no section `tune`; expected one in the file, or --tune-with FILE.yaml")
    return Tuning(tables[0].head.tune, tables[0].document.at)


def check(tuning: Tuning, rows: Sequence[Row], options: ExecutionOptions) -> None:
    """Raises UserError for options that exclude `--tune`. Warns of a rung that no training reaches."""
    if options.scheduler["kind"] != "fifo":
        raise UserError("--tune: found a scheduler that compares rows; expected fifo: a search ends trials within their row (tune.stop)")
    if options.until_decided:
        raise UserError("--tune: found --until-decided too; expected one of them")
    steps = [row.spec.train.max_steps for row in rows if row.spec is not None]
    most = max((each for each in steps if each is not None), default=None)
    if tuning.spec.stop is not None and most is not None and None not in steps and tuning.spec.stop.rungs[-1] >= most:
        line = f"warning: found rungs {tuning.spec.stop.rungs}; every training ends by update {most}"
        log(tuning.at(("tune", "stop", "rungs")).line(line))


def show(records: Sequence[Record]) -> None:
    """Prints a table of the arms on stderr, and their warnings."""
    lines = []
    for record in records:
        chosen = record["trials"][record["chosen"]] if record["chosen"] is not None else None
        written = record["trials"][0]["value"]
        line = {"arm": short_id(record["row"]), "trials": len(record["trials"]), "as written": "" if written is None else f"{written:.4f}"}
        line |= {"best": "" if chosen is None else f"{chosen['value']:.4f}", "chosen values": choice.said(record)}
        lines.append(line | {"updates": f"{record['updates']:,}", "device-hours": f"{record['seconds'] / 3600:.2f}"})
    title, numeric = f"search by {records[0]['tune']['select']}", ("trials", "as written", "best", "updates", "device-hours")
    console(stderr=True).print(filled_table(lines, title=title, numeric=numeric))
    for record in records:
        log(*(f"warning: {short_id(record['row'])}: {line}" for line in choice.warnings(record)))


def execute_tuned(
    rows: list[Row], tuning: Tuning, seeds: list[int], options: ExecutionOptions, run: Callable[..., list[Result]]
) -> list[Result]:
    """Searches, then runs the tuned rows with the judging seeds. Returns the results of these runs.

    UserError: a value fits no arm. Exit code 1 (typer.Exit): a run of the search failed, before its rung is judged.
    """

    def train(*arguments: Any) -> list[Result]:
        results = run(execute, *arguments)
        if failed := [result for result in results if result.outcome.status == FAILED]:
            lines = (f"{result.id} seed {result.seed} failed: {result.outcome.reason}" for result in failed)
            log(*lines, "the search has failed runs; the same command trains them again")
            raise typer.Exit(1)
        return results

    preflight.check_metrics(make_tasks(rows, seeds, options))  # every corpus is there, and what scores need
    arms, spec = arms_of(rows, tuning), tuning.spec
    ledger = Ledger(options.results, list(options.mirrors))
    with session(options, rows):
        search = Search(tuning, train, options, ledger)
        log(f"searching {len(arms)} arms: {spec.trials} trials each with seeds {', '.join(map(str, spec.seeds.search))}")
        search.run(arms)
        records = [choice.record_of(arm, search) for arm in arms]
        for record in records:
            choice.write(ledger, record)
        show(records)
        tuned = [choice.apply(row, record) for row, record in zip(rows, records, strict=True)]
        return run(execute, tuned, seeds, judging_sweep(options))


def judging_sweep(options: ExecutionOptions) -> ExecutionOptions:
    """Returns the options of the sweep that judges the chosen configurations. The page of the results is the page of this sweep."""
    return replace(options, name=f"{options.name}:tuned", sweep={**(options.sweep or {}), "scheduler": {"kind": "fifo"}})
