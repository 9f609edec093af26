"""`run` and `sweep`: rows become results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.next_steps import labels, next_steps
from orchestrator.cli.options import (
    CACHE,
    RESULTS,
    AsJson,
    CacheDir,
    DataDir,
    Export,
    MaxHours,
    NoTracking,
    Profile,
    Results,
    Seed,
    Seeds,
    Sets,
    TrackingCanWait,
    TrackingUri,
)

if TYPE_CHECKING:
    from orchestrator.specs.row import Row

Engine = Annotated[str, typer.Option("--engine", help="local: one run after the other, here; ray: Ray Tune and Ray Train.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Workers of each run (needs --engine ray above 1).")]

Resources = Annotated[
    str | None,
    typer.Option(
        "--resources", metavar="gpu=auto,wait=600", help="Over the file's sweep.resources: gpu (of each worker), memory, wait (s)."
    ),
]

Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Train what has a result anew; that is kept below RESULTS/earlier. Not the row it starts from, unless that is named; "
        "rows that share the training get the new result too.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("run")(run)
    app.command("sweep")(sweep)


def run(
    target: Annotated[
        str, typer.Argument(metavar="ROW|FILE|FOLDER", help="paper/table/row, FILE.yaml, FILE.yaml#row, a folder, or what `show` printed.")
    ],
    seed: Seed = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    engine: Engine = "local",
    workers: Workers = None,
    cache_dir: CacheDir = CACHE,
    export: Export = None,
    no_tracking: NoTracking = False,
    tracking_uri: TrackingUri = None,
    tracking_can_wait: TrackingCanWait = False,
    resources: Resources = None,
    again: Again = False,
    as_json: AsJson = False,
) -> None:
    """Train, decode and score one row (or every row of a file or folder, to its full budget). What is done is not done again.

    Example:  nmt-ablate run dou2018/table1/row9 --profile smoke
    """
    from orchestrator.specs.resources import parse
    from orchestrator.specs.rows import resolve
    from orchestrator.sweeps.names import address_of, sweep_name

    rows = resolve(target, sets=sets, profile=profile, seed=seed)
    seeds = [seed] if seed is not None else sorted({row.spec.seed for row in rows if row.spec is not None} or {1})
    name = sweep_name(rows[0].id if len(rows) == 1 else address_of(target, rows), profile, sets) + "".join(f":{s}" for s in seeds)
    tracking = _tracking(no_tracking, tracking_uri, tracking_can_wait)
    section = None if resources is None else {"resources": parse(resources)}
    about = tracking | {"again": again, "profile": profile, "sets": sets}
    _execute(rows, seeds, name, section, engine, workers, results, data_dir, cache_dir, export, about, as_json)


def sweep(
    target: Annotated[str, typer.Argument(metavar="FILE|TABLE|FOLDER", help="FILE.yaml, paper/table, or a folder of tables.")],
    seeds: Seeds = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    engine: Engine = "ray",
    workers: Workers = None,
    cache_dir: CacheDir = CACHE,
    export: Export = None,
    no_tracking: NoTracking = False,
    tracking_uri: TrackingUri = None,
    tracking_can_wait: TrackingCanWait = False,
    resources: Resources = None,
    max_hours: MaxHours = None,
    as_json: AsJson = False,
) -> None:
    """Every row of a file with every seed, under the scheduler of its sweep section. The same command goes on after an interruption.

    At the cap of --max-gpu-hours it stops as by Ctrl-C; a larger cap goes on.

    Of a folder: every row of all its tables, work that they share done once; none of them may have a scheduler that cuts rows.

    Example:  nmt-ablate sweep search_spaces/quickstart.yaml
    """
    from orchestrator.specs.resources import parse
    from orchestrator.specs.rows import resolve, sweep_of
    from orchestrator.sweeps.names import address_of, parse_seeds, sweep_name

    wanted, limits = parse_seeds(seeds), parse(resources)
    rows = resolve(target, sets=sets, profile=profile)
    section = sweep_of(target, profile)
    name = sweep_name(address_of(target, rows), profile, sets)
    _execute(
        rows,
        wanted or section.seeds,
        name,
        section.model_dump() | {"resources": section.resources.model_dump() | limits},
        engine,
        workers,
        results,
        data_dir,
        cache_dir,
        export,
        _tracking(no_tracking, tracking_uri, tracking_can_wait) | {"profile": profile, "sets": sets},
        as_json,
        max_hours,
    )


def _tracking(off: bool, uri: str | None, can_wait: bool) -> dict[str, Any]:
    """The options of tracking as fields of `sweeps.tasks.Options`."""
    from orchestrator.tracking.environment import checked_uri

    return {"tracking": not off, "tracking_uri": None if off else checked_uri(uri), "tracking_can_wait": can_wait}


def _execute(
    rows: list[Row],
    seeds: list[int],
    name: str,
    section: dict[str, Any] | None,
    engine: str,
    workers: int | None,
    results: Path,
    data_dir: Path | None,
    cache_dir: Path,
    export: Path | None,
    about: dict[str, Any],
    as_json: bool,
    max_hours: float | None = None,
) -> None:
    from orchestrator.cli.options import console, mirrors, need_folder, stdout_to_stderr, until_a_cap
    from orchestrator.engines.execute import check_engine, execute
    from orchestrator.errors import UserError
    from orchestrator.specs.rows import runs
    from orchestrator.sweeps import cap
    from orchestrator.sweeps.names import profile_of
    from orchestrator.sweeps.retrain import check_seeds

    check_engine(engine, workers)
    cap.check(max_hours, results)
    need_folder(data_dir, "--data-dir")
    todo = [row for row in rows if row.kind == "run"]
    if not todo:
        raise UserError(f"{rows[0].id}: found no row of kind run: nothing to execute")
    runs(todo, seeds)
    scheduler = (section or {}).get("scheduler") or {}
    check_seeds(scheduler.get("retrain"), seeds)

    from orchestrator.sweeps.options import ExecutionOptions

    options = ExecutionOptions(
        name=name,
        engine=engine,
        workers=workers,
        results=results,
        data_dir=data_dir,
        cache_dir=cache_dir,
        mirrors=tuple(mirrors()),
        export=export,
        sweep=section,
        max_hours=max_hours,
        **about,
    )
    with stdout_to_stderr(), until_a_cap():
        records = execute(todo, seeds, options)
    out = console(stderr=as_json)
    _tell(records, todo, out, as_json)
    if scheduler.get("retrain") and all(record["status"] in ("done", "stopped", "diverged") for record in records):
        records += _retrain(records, todo, options, scheduler, out, as_json)
    next_steps(out, todo, results, profile_of(name))
    if any(record["status"] not in ("done", "stopped") and not record.get("failed_as_stated") for record in records):
        raise typer.Exit(1)


def _tell(records: list[dict[str, Any]], rows: list[Row], out: Any, as_json: bool) -> None:
    """Every result: JSON lines where they are wanted, the table, why runs failed."""
    from orchestrator.cli.options import emit, note
    from orchestrator.report.summary import reasons, summary

    if as_json:
        for record in records:
            emit(record)
    out.print(summary(records, labels(rows)))
    for line in reasons(records):
        note(line)


def _retrain(records: list[dict[str, Any]], rows: list[Row], options: Any, scheduler: dict[str, Any], out: Any, as_json: bool) -> list[Any]:
    """The best rows of a search again, in full and with seeds of their own, as a sweep beside it."""
    from dataclasses import replace

    from orchestrator.cli.options import note, stdout_to_stderr, until_a_cap
    from orchestrator.engines.execute import execute
    from orchestrator.ledger.results import Ledger
    from orchestrator.sweeps.retrain import chosen, said

    found = chosen(records, rows, Ledger(options.results, list(options.mirrors)), scheduler)
    if not found:
        note("nothing to retrain: no run of the search came to its end")
        return []
    note(said(found, scheduler))
    again = replace(options, name=f"{options.name}:retrain", sweep=options.sweep | {"scheduler": {"kind": "fifo"}})
    best = {survivor.row for survivor in found}
    with stdout_to_stderr(), until_a_cap():
        made = execute([row for row in rows if row.id in best], scheduler["retrain"]["seeds"], again)
    made = [record | {"replicate": True} for record in made]
    _tell(made, rows, out, as_json)
    return made
