"""`analyse`: figures and tables of trained rows. Reads the ledger and the weights, trains nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from orchestrator.analysis.base import Analysis, AnalysisContext, kind_of, options_of
from orchestrator.analysis.figures import write
from orchestrator.analysis.subjects import folder_name, group, kinds_of, rows_of
from orchestrator.cli.commands.request import open_ledger
from orchestrator.cli.output import console, print_json
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.folders import make, need_folder
from orchestrator.safe_text import log, visible
from orchestrator.sweeps.options import RowOptions
from orchestrator.tables import filled_table
from orchestrator.tracking.artifacts import log_analysis
from orchestrator.tracking.environment import checked_uri

MAX_RECORDS, MAX_COLUMNS = 40, 9
"""Records and columns on the terminal; all of them are in the files."""


def analyse(
    targets: Sequence[str],
    kind: str | None,
    settings: Sequence[str],
    seed: int,
    options: RowOptions,
    *,
    out: Path | None,
    tracking: bool,
    tracking_uri: str | None,
    as_json: bool,
) -> None:
    """Runs the analyses. Problems of single kinds are warnings. UserError: no kind could run."""
    need_folder(options.data_dir, "--data-dir")
    uri = checked_uri(tracking_uri)
    rows = rows_of(targets, options, seed)
    kinds = kinds_of(rows, kind)
    settings_of = {name: options_of(name, list(settings)) for name in kinds}
    part = len(targets) > 1 or not set(",*").isdisjoint(targets[0])
    name, ledger = folder_name(rows, options, seed, settings, several_targets=part), open_ledger(options.results)
    make(out, "--out")
    folder = options.results / "analyses" / name if out is None else out
    make(folder, "--results")
    problems: list[str] = []
    done = 0
    for each, its_rows in kinds.items():
        try:
            subjects, left_out = group(each, its_rows, options, ledger, seed)
            context = AnalysisContext(subjects, ledger, options.data_dir, options.cache_dir, settings_of[each])
            analysis = kind_of(each).analyse(context)
        except UserError as error:
            problems += error.lines
            continue
        done += 1
        log(*(f"left out: {line}" for line in left_out))
        files = write(each, analysis, context, folder)
        if tracking:
            tags = {"rows": ",".join(s.row.id for s in context.subjects), "profile": options.profile or "as published"}
            tags |= dict(zip(("paper", "table"), its_rows[0].id.split("/"), strict=False))
            params = {"seed": seed, **context.options}
            if warning := log_analysis(options.results, f"{each} {name}", each, list(files.values()), params, tags, uri):
                log(warning)
        _print(each, analysis, files, name, as_json)  # last: the reader of stdout may be gone
    if not done:
        raise UserError(*problems)
    log(*(f"warning: {line}" for line in problems))


def _print(kind: str, analysis: Analysis, files: dict[str, Path], name: str, as_json: bool) -> None:
    """On stdout: a table with its notes and the paths of the files, or one JSON object."""
    if as_json:
        record = {"kind": kind, "columns": analysis.columns, "records": analysis.records}
        paths = {ending: str(path) for ending, path in files.items()}
        print_json(atomic.plain(record | {"files": paths, "notes": analysis.notes}))
        return
    screen = console()
    wide = len(analysis.shown or analysis.columns) > MAX_COLUMNS
    if analysis.summary and (wide or len(analysis.records) > MAX_RECORDS):
        screen.print(visible(f"{kind}: {name}: all {len(analysis.records)} lines are in the files"), markup=False)
    else:
        screen.print(_table(analysis, f"{kind}: {name}"))
    for line in (*analysis.summary, *(f"note: {line}" for line in analysis.notes)):
        screen.print(visible(line), markup=False)
    for path in files.values():
        screen.print(visible(str(path)), markup=False, soft_wrap=True)


def _table(analysis: Analysis, title: str) -> Table:
    columns = analysis.columns if analysis.shown is None else analysis.shown
    values = {analysis.heads.get(column, column): [record.get(column) for record in analysis.records] for column in columns}
    numeric = [
        name for name, own in values.items() if all(isinstance(v, (int, float, type(None))) and not isinstance(v, bool) for v in own)
    ]
    lines = [{column: _text(value[place]) for column, value in values.items()} for place in range(min(MAX_RECORDS, len(analysis.records)))]
    table = filled_table(lines, title=title, numeric=numeric)
    if len(analysis.records) > MAX_RECORDS:
        table.caption = f"{MAX_RECORDS} of {len(analysis.records)} lines; all are in the files"
    return table


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
