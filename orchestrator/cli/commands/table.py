"""`table`."""

from __future__ import annotations

import sys
from typing import Any

from orchestrator.cli.commands.rows import open_ledger, resolve_rows
from orchestrator.cli.console import console
from orchestrator.cost.estimate import Costs
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.report import terminal
from orchestrator.report.figures import short_id
from orchestrator.report.find import Finder
from orchestrator.report.formats import FORMATS, several
from orchestrator.report.page.section import Section
from orchestrator.report.table import make
from orchestrator.safe_text import log
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.specs.claims import of_table
from orchestrator.specs.gc_pause import no_garbage_collection
from orchestrator.specs.index import find_all
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.row import Row, by_table
from orchestrator.specs.table import SweepSpec
from orchestrator.sweeps.options import RowOptions, quoted
from orchestrator.sweeps.plan import Data

TERMINAL = "terminal"


@no_garbage_collection(freeze=True)
def table(target: str, form: str | None, columns: str | None, baseline: str | None, options: RowOptions) -> None:
    """form: None for a table to read in a terminal, and Markdown elsewhere. columns: names with commas between."""
    known = [*FORMATS, TERMINAL]
    if form is None:
        form = TERMINAL if sys.stdout.isatty() else "md"
    if form not in known:
        raise UserError(f"--format {shown(form)}: {nearest(form, known)}")
    names = [] if columns is None else [name.strip() for name in columns.split(",")]
    if columns is not None and not all(names):
        raise UserError(f"--columns {shown(columns)!r}: found an empty name; expected names of columns with commas between, or all")
    made = [each.table for each in sections(target, baseline, options)]
    if form == TERMINAL:
        for each in made:
            terminal.show(console(), each, names)
    else:
        sys.stdout.write(several(made, form, names))


def sections(target: str, baseline: str | None, options: RowOptions) -> list[Section]:
    """The tables of a target, each with its rows and results. Warnings go to stderr; UserError for a baseline that is not in a table."""
    need_folder(options.data_dir, "--data-dir")
    data = Data(options.data_dir, options.cache_dir)
    made = sections_of(target, resolve_rows(target, options, data=data), baseline, options, data)
    for line in dict.fromkeys(line for each in made for line in each.table.warnings):
        log(f"warning: {line}")
    return made


def sections_of(target: str, rows: list[Row], baseline: str | None, options: RowOptions, data: Data) -> list[Section]:
    """`sections` of a target whose rows are resolved, without the warnings."""
    tables = by_table(rows)
    if baseline is not None and len(tables) > 1:
        raise UserError(f"--baseline {shown(baseline)}: {shown(target)} has {len(tables)} tables; expected one")
    finder = Finder(open_ledger(options.results), data)
    reader = StatisticsReader(finder.ledger, finder.prepared)
    files = {found.table.address: found.table for found in find_all(target)}
    return [
        _section(files.get(address) or next(iter(files.values())), address, own, finder, reader, baseline, options)
        for address, own in tables.items()
    ]


def _section(
    file: TableFile, address: str, rows: list[Row], finder: Finder, reader: StatisticsReader, baseline: str | None, options: RowOptions
) -> Section:
    runs = {row.id.removeprefix(f"{address}/"): row.id for row in rows if row.kind == "run"}
    base = None
    if baseline is not None:
        base = runs.get(baseline.removeprefix(f"{address}/"))
        if base is None:
            hint = nearest(baseline.removeprefix(f"{address}/"), runs)
            raise UserError(f"--baseline {shown(baseline)}: no such row of {address}; {hint}")
    sets = options.sets or []
    scale = ", ".join([f"profile {options.profile}"] * bool(options.profile) + [f"--set {text}" for text in sets])
    full = options.profile is None and all(text.startswith("data.vocab.") for text in sets)
    seeds = (file.sweep or SweepSpec()).seeds
    costs = Costs(finder.data, options.results).of
    stated = of_table(address, file.claims)
    more: dict[str, Any] = {"base": base, "reader": reader, "stated": stated, "costs": costs, "full_size": full, "given": options.arguments}
    made = make(address, rows, finder, file.columns, seeds, scale, **more)
    asked = (["--baseline", short_id(base)] if base is not None else []) + (["--controls", options.controls] if options.controls else [])
    outcomes = {row.id: finder.outcomes(row, seeds) for row in rows}
    return Section(made, rows, outcomes, finder, base, scale, options.arguments, quoted(asked))
