"""`run` and `sweep`."""

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from orchestrator.cli.commands import looks, tune
from orchestrator.cli.commands.report import write_sweep_page
from orchestrator.cli.commands.request import Request
from orchestrator.cli.commands.sizes import at_sizes, make_ladders
from orchestrator.cli.commands.table import sections
from orchestrator.cli.output import console, print_json, stdout_to_stderr
from orchestrator.engines.execute import check_engine, choose_engine, execute
from orchestrator.errors import LockedError, UserError
from orchestrator.files.folders import need_folder
from orchestrator.paths import published_ledgers
from orchestrator.report import formats
from orchestrator.report.page.section import Section
from orchestrator.safe_text import log, visible
from orchestrator.specs import claims
from orchestrator.specs.controls import TUNED, parse
from orchestrator.specs.row import Row
from orchestrator.specs.rows import runs, sweep_of
from orchestrator.specs.sweep import parse_resources
from orchestrator.sweeps import budget
from orchestrator.sweeps.live import phase
from orchestrator.sweeps.names import address_of, as_targets, sweep_name
from orchestrator.sweeps.options import ExecutionOptions, RowOptions
from orchestrator.sweeps.row import Result
from orchestrator.sweeps.task import make_tasks
from orchestrator.tracking.environment import checked_uri
from orchestrator.tuning.search import Execute
from orchestrator.tuning.trials import Tuning


def prepare_run(target: str, seeds: list[int] | None, options: ExecutionOptions) -> tuple[Request, list[int], ExecutionOptions]:
    """Returns request, seeds and options of `run`. seeds: None: the rows' own."""
    request = Request.of(target, options, seed=seeds[0] if seeds else None, preparing=True)
    rows = request.rows
    seeds = seeds or sorted({row.spec.seed for row in rows if row.spec is not None} or {1})
    address = rows[0].id if len(rows) == 1 else address_of(target, rows, request.found)
    name = sweep_name(address, options.profile, options.sets) + "".join(f":{s}" for s in seeds)
    section = None if options.resources is None else {"resources": parse_resources(options.resources)}
    return request, seeds, replace(options, name=name, sweep=section)


def prepare_sweep(target: str, requested: list[int] | None, options: ExecutionOptions) -> tuple[Request, list[int], ExecutionOptions]:
    """Returns request, seeds and options of `sweep`. requested: seeds; None: those of the section `sweep`, or `tune`."""
    limits = parse_resources(options.resources)
    request = Request.of(target, options, preparing=True)
    found = request.found
    section = sweep_of(found, options.profile)
    if options.until_decided:
        looks.check(target, section, requested or section.seeds, options.max_hours)
    settings = section.model_dump() | {"resources": section.resources.model_dump() | limits}
    name = sweep_name(address_of(target, request.rows, found), options.profile, options.sets, parse(options.controls))
    tables = {each.table.path: each.table for each in found if each.table.head.claims}
    stated = [claims.as_data(table.address, path, table.head.claims) for path, table in tables.items()]
    seeds = tune.judging(_tuning(request), requested) if tune.wanted(options) else requested or section.seeds
    return request, seeds, replace(options, name=name, sweep=settings, claims=stated)


def _tuning(request: Request) -> Tuning:
    return tune.tuning_of([found.table for found in request.found], request.options.tune_with)


def sweep(target: str, requested: list[int] | None, options: ExecutionOptions) -> None:
    """Runs `sweep`, with `--ladder` at each size. Exit codes (typer.Exit): of `execute_rows`, with 1 before 3."""
    sizes = [prepare_sweep(target, requested, each) for each in at_sizes(options, target)]
    for request, seeds, own in sizes[1:]:
        make_tasks([row for row in request.rows if row.kind == "run"], seeds, own)  # a missing corpus shows before the first size trains
    failed = set[int]()
    for request, seeds, own in sizes:
        try:
            execute_rows(request.rows, seeds, own, request, with_page=True)
        except typer.Exit as end:
            if end.exit_code not in (1, 3):
                raise
            failed.add(end.exit_code)
    if len(sizes) > 1:
        for found in make_ladders([(each, sections(each.again(), None, quiet=True, recording=not failed)) for each, _, _ in sizes]):
            formats.show_ladder(console(stderr=options.as_json), found)
    if failed:
        raise typer.Exit(min(failed))


def execute_rows(
    rows: list[Row], seeds: list[int], options: ExecutionOptions, request: Request | None = None, *, with_page: bool = False
) -> None:
    """Runs rows and prints their records. Exit code 1 (typer.Exit): a run failed unexpectedly; 3: other processes work on these runs.

    request: its tables are printed at the end. with_page: whether to write their page too.
    """
    trainable, options = checked(rows, seeds, options)
    options = choose_engine(trainable, options)
    if tune.wanted(options):
        assert request is not None
        tuning = _tuning(request)
        tune.check(tuning, trainable, options)
        results = tune.execute_tuned(trainable, tuning, seeds, options, _execute)
        options = tune.judging_sweep(options)
    else:
        engine: Execute = partial(looks.execute_looks, request) if options.until_decided and request is not None else execute
        results = _execute(engine, trainable, seeds, options)
    out = console(stderr=options.as_json)
    tables = _print_results(results, request, out, options)
    with phase("writing the page"):
        page = write_sweep_page(tables, options) if with_page else None
    _print_next_commands(trainable, out, options, page)
    failed = [r.outcome for r in results if r.outcome.status not in ("done", "stopped") and not r.outcome.as_stated]
    if failed:
        raise typer.Exit(3 if all(LockedError.NAMED in outcome.reason for outcome in failed) else 1)


def checked(rows: list[Row], seeds: list[int], options: ExecutionOptions) -> tuple[list[Row], ExecutionOptions]:
    """Returns the rows that train, and the completed options. UserError: an error that shows before any work."""
    check_engine(options.engine, options.workers, options.jobs)
    uri = None if options.no_tracking else checked_uri(options.tracking_uri)
    options = replace(options, tracking_uri=uri, mirrors=tuple(published_ledgers()))
    budget.check(options.max_hours, options.results)
    need_folder(options.data_dir, "--data-dir")
    trainable = [row for row in rows if row.kind == "run"]
    if not trainable:
        raise UserError(f"{rows[0].id}: found no row of kind run: nothing to execute")
    runs(trainable, seeds)
    return trainable, options


def _execute(engine: Execute, rows: list[Row], seeds: list[int], options: ExecutionOptions) -> list[Result]:
    """Runs `engine`. A sweep that reaches its cap on device-hours exits like an interrupted sweep."""
    try:
        with stdout_to_stderr():
            return engine(rows, seeds, options)
    except budget.BudgetExceeded as error:
        log(str(error))
        raise typer.Exit(130) from None


def _print_results(results: list[Result], request: Request | None, out: Console, options: ExecutionOptions) -> list[Section]:
    """Prints JSON lines with --json, else the tables, and the reasons of failures. Returns the tables."""
    if options.as_json:
        for result in results:
            print_json(result.as_json())
    tables: list[Section] = []
    if request is not None:
        with phase("comparing the rows"):
            whole = all(result.outcome.finished or result.outcome.status == "stopped" for result in results)  # else one more look follows
            tables = sections(request.again(), None, seeds={result.seed for result in results}, quiet=True, recording=whole)
    for section in tables:
        formats.show(out, section.table)
    bad = [result for result in results if result.outcome.status not in ("done", "stopped")]
    for result in bad:
        reason = " ".join((result.outcome.reason or "no reason known").split())
        log(f"{result.id} seed {result.seed} {result.outcome.status}: {reason[:400]}")
    if stated := sum(result.outcome.as_stated for result in bad):
        log(f"{stated} of {len(bad)} failed by their rows' own rule (failed_below): an outcome, no error")
    return tables


def _print_next_commands(rows: list[Row], out: Console, options: ExecutionOptions, page: Path | None) -> None:
    place = RowOptions(results=options.results).arguments
    shown = TUNED + options.arguments if tune.wanted(options) else RowOptions(profile=options.profile, sets=options.sets).arguments
    targets = [as_targets(row) for row in rows]
    lines = [] if page is None else [f"the page:   {page}"]
    lines += [] if options.no_tracking else [f"MLflow UI:  nmt-ablate ui{place}"]
    lines += [f"one row:    nmt-ablate show {shlex.quote(targets[0][1])}{shown}"]
    tables = dict.fromkeys(table for table, _ in targets)
    lines += [f"the table:  nmt-ablate table {shlex.quote(table)}{options.table_arguments}" for table in tables]
    for line in lines:
        out.print(visible(line), markup=False, soft_wrap=True)
