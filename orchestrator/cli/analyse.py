"""`analyse`: figures and tables of trained rows that no training gives. Reads the ledger and the weights, trains nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import (
    CACHE,
    RESULTS,
    AsJson,
    CacheDir,
    DataDir,
    Export,
    NoTracking,
    Profile,
    Results,
    Seed,
    Sets,
    TrackingUri,
)
from orchestrator.files.folders import parser
from orchestrator.ledger import mirrored

if TYPE_CHECKING:
    from orchestrator.analysis.base import Analysis, Context
    from orchestrator.analysis.subjects import How
    from orchestrator.specs.row import Row

MAX_SHOWN, MAX_COLUMNS = 40, 9
"""Records and columns on the terminal; all of them are in the files."""


def register(app: typer.Typer) -> None:
    app.command("analyse")(analyse)


def analyse(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET..", help="Rows, tables, files or folders of search_spaces.")],
    kind: Annotated[str | None, typer.Option("--kind", help="Which analysis; default: what the rows name as theirs.")] = None,
    given: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="Of the analysis, as edges=15,30,45; may be repeated.")
    ] = None,
    seed: Seed = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    cache_dir: CacheDir = CACHE,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=parser("--out"), help="Folder of the files; default RESULTS/analyses/NAME."),
    ] = None,
    export: Export = None,
    no_tracking: NoTracking = False,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
) -> None:
    """Analyse trained rows: data as JSON and CSV, a figure as PNG and SVG. A row without a run is named and left out.

    Kinds: length, exploitation, hops, steps, accuracy, layer-attention, properties, probing, significance, speed, inference-speed,
    grid, degradation, difficulty, attention-maps, gradient-norms, lead, loss-curves, embedding-size, parameters, asha.

    Example:  nmt-ablate analyse dou2018/fig4 --profile smoke
    """
    from orchestrator.analysis import base
    from orchestrator.analysis.files import write
    from orchestrator.analysis.subjects import How, group, kinds_of, rows_of, slug
    from orchestrator.cli.options import ledger, need_folder, note
    from orchestrator.errors import UserError
    from orchestrator.files.folders import make
    from orchestrator.tracking.environment import checked_uri

    need_folder(data_dir, "--data-dir")
    uri = checked_uri(tracking_uri)
    how = How(list(sets or []), profile, 1 if seed is None else seed)
    rows = rows_of(targets, how)
    kinds = kinds_of(rows, kind)
    options = {name: base.options_of(name, list(given or [])) for name in kinds}
    name, book = slug(rows, how, given or (), picked=len(targets) > 1), ledger(results)
    folder = out if out is not None else results / "analyses" / name
    make(folder, "--out" if out is not None else "--results")
    make(export, "--export")
    problems: list[str] = []
    done = 0
    for each, its_rows in kinds.items():
        try:
            found = group(each, its_rows, how, book, data_dir, _again(how, results))
            context = base.Context(found.subjects, book, data_dir, cache_dir, options[each])
            made = base.module_of(each).analyse(context)
        except UserError as error:
            problems += error.lines
            continue
        done += 1
        for line in found.left_out:
            note(f"left out: {line}")
        files = write(made, context, folder)
        if export is not None:
            _export(made.kept, results, export)
        if not no_tracking:
            _log(made, context, files, name, its_rows, how, results, uri)
        _show(made, files, name, as_json)  # last: who reads stdout may go away
    if not done:
        raise UserError(*problems)
    for line in problems:
        note(f"warning: {line}")


def _export(kept: list[Path], results: Path, target: Path) -> None:
    """Copies files of the ledger to the same places below `target`."""
    from orchestrator.files import atomic

    for path in kept:
        place = target / path.relative_to(results)
        place.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(place, path.read_text(encoding="utf-8"))


def _log(
    made: Analysis, context: Context, files: dict[str, Path], name: str, rows: list[Row], how: How, results: Path, uri: str | None
) -> None:
    """To MLflow; a warning where that fails."""
    from orchestrator.cli.options import note
    from orchestrator.tracking.sweeps import log_analysis

    tags = {"rows": ",".join(s.row.id for s in context.subjects), "profile": how.profile or "as published"}
    tags |= dict(zip(("paper", "table"), rows[0].id.split("/"), strict=False))
    params = {"seed": how.seed, **context.options}
    if warning := log_analysis(results, f"{made.kind} {name}", made.kind, list(files.values()), params, tags, uri):
        note(warning)


def _show(made: Analysis, files: dict[str, Path], name: str, as_json: bool) -> None:
    """On stdout: a table with its notes and the paths of the files, or one object of JSON."""
    from orchestrator.cli.options import console, emit
    from orchestrator.files.atomic import plain
    from orchestrator.safe_text import visible

    if as_json:
        paths = {ending: str(path) for ending, path in files.items()}
        emit(plain({"kind": made.kind, "columns": made.columns, "records": made.records, "files": paths, "notes": made.notes}))
        return
    screen = console()
    wide = len(made.shown or made.columns) > MAX_COLUMNS
    if made.summary and (wide or len(made.records) > MAX_SHOWN):
        screen.print(visible(f"{made.kind}: {name}: all {len(made.records)} lines are in the files"), markup=False)
    else:
        screen.print(_table(made, name))
    for line in (*made.summary, *(f"note: {line}" for line in made.notes)):
        screen.print(visible(line), markup=False)
    for path in files.values():
        screen.print(visible(str(path)), markup=False, soft_wrap=True)


def _table(made: Analysis, name: str) -> Any:
    from rich.table import Table

    from orchestrator.safe_text import cell

    table = Table(title=cell(f"{made.kind}: {name}"), title_justify="left")
    columns = made.columns if made.shown is None else made.shown
    for column in columns:
        numeric = all(isinstance(r.get(column), (int, float, type(None))) and not isinstance(r.get(column), bool) for r in made.records)
        table.add_column(cell(column), justify="right" if numeric else "left", overflow="fold")
    for record in made.records[:MAX_SHOWN]:
        table.add_row(*(cell(_cell(record.get(column))) for column in columns))
    if len(made.records) > MAX_SHOWN:
        table.caption = f"{MAX_SHOWN} of {len(made.records)} lines; all are in the files"
    return table


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _again(how: How, results: Path) -> str:
    """Options that run a missing row as this command would have found it."""
    words = [f" --profile {how.profile}"] if how.profile else []
    words += [f" --set {text}" for text in how.sets]
    return "".join(words + ([f" --results {mirrored.shown(results)}"] if results != RESULTS else []))
