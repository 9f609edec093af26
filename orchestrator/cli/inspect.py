"""`plan`, `show` and `list`: look, change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import CACHE, RESULTS, AsJson, CacheDir, DataDir, Profile, Results, Seed, Seeds, Sets
from orchestrator.specs.grid.gc_pause import put_off

if TYPE_CHECKING:
    from orchestrator.sweeps.plan import Plan


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)
    app.command("show")(show)
    app.command("list")(list_rows)


@put_off(for_good=True)
def plan(
    targets: Annotated[list[str], typer.Argument(metavar="SPEC|ROW..", help="Files, folders, tables or rows.")],
    seeds: Seeds = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    cache_dir: CacheDir = CACHE,
    force: Annotated[bool, typer.Option("--force", help="Allow more than 10,000 runs.")] = False,
    probe: Annotated[bool, typer.Option("--probe", help="Measure a few updates of each architecture on this machine.")] = False,
    probes: Annotated[int, typer.Option("--probes", min=1, help="New probes at most; other rows take the nearest's rate.")] = 12,
    check: Annotated[bool, typer.Option("--check", help="Compare estimates with the seconds that finished runs took.")] = False,
    as_json: AsJson = False,
) -> None:
    """What would run and what it costs: keys, parameters, operations, time, memory, what is done and what is shared. Starts no training.

    Time and memory come from probes, which --probe makes and results/probes keeps; without them they are not known.

    Example:  nmt-ablate plan dou2018/table1 --set data.vocab.src=28550 --set data.vocab.tgt=28550
    """
    from orchestrator.cli.options import console, emit, given, ledger, need_folder, note
    from orchestrator.cost.check import check as compare
    from orchestrator.cost.check import lines as check_lines
    from orchestrator.cost.estimate import Costs
    from orchestrator.cost.planned import add_costs
    from orchestrator.cost.planned import lines as cost_lines
    from orchestrator.cost.probing import probed
    from orchestrator.errors import UserError
    from orchestrator.files.folders import make as make_folder
    from orchestrator.ledger.sources import warnings
    from orchestrator.specs.rows import resolve, sweep_of
    from orchestrator.sweeps.names import parse_seeds
    from orchestrator.sweeps.plan import Data
    from orchestrator.sweeps.plan import plan as make

    need_folder(data_dir, "--data-dir")
    wanted = parse_seeds(seeds)
    problems: list[str] = []
    rows, default, rungs, scheduler = [], set(), set(), {}
    grids: list[dict[str, Any]] = []
    for target in targets:
        try:
            rows += resolve(target, sets=sets, profile=profile)
            section = sweep_of(target, profile)
            default |= set(section.seeds)
            scheduler = section.model_dump()["scheduler"]
            rungs |= set(scheduler.get("rungs") or [])
            grids += _grids(target)
        except UserError as error:
            problems += error.lines
    if problems:
        raise UserError(*dict.fromkeys(problems))
    kept_data, books = Data(data_dir, cache_dir), ledger(results)
    costs = Costs(kept_data, results)
    if probe:
        make_folder(results, "--results")
    problems = probed(costs, rows, data_dir=data_dir, cache_dir=cache_dir, most=probes, tell=note) if probe else []
    found = make(rows, wanted or sorted(default), ledger=books, force=force, rungs=sorted(rungs), data=kept_data)
    add_costs(found, rows, costs, books)
    data = found.as_json()
    checked = compare(found, rows, costs, books) if check else None
    if as_json:
        emit(data | {"grids": grids} | ({} if checked is None else {"check": checked}))
    else:
        console().print(_plan_table(found))
    totals = data["totals"]
    counts = ", ".join(f"{totals[name]} {name}" for name in ("new", "shared", "done", "failed", "stopped", "needs-data") if name in totals)
    note(
        f"{totals['runs']} runs: {counts or 'none'}; {found.trainings} trainings to do, {len(found.parents)} of rows that others start from"
    )
    changed = {(row.id, row.seed): row.changed for row in (*found.parents, *found.rows)}
    for line in warnings(changed, given(profile, sets, results)):
        note(f"warning: {line}")
    told = [*(line for grid in grids for line in _grid_lines(grid)), *found.notes, *cost_lines(found, scheduler)]
    for line in (*told, *([] if checked is None else check_lines(checked)), *problems):
        note(line)
    if problems:
        raise typer.Exit(1)


def _grids(target: str) -> list[dict[str, Any]]:
    """What the grids of whole files that were asked for leave out."""
    from orchestrator.specs.grid.explain import summary
    from orchestrator.specs.index import find_all

    return [summary(found.table) for found in find_all(target) if found.row is None and found.table.grid is not None]


def _grid_lines(grid: dict[str, Any]) -> list[str]:
    out = grid["combinations"] - grid["rows"]
    twice = f"; {grid['drawn_twice']:,} draws came out as others" if grid["drawn_twice"] else ""
    lines = [f"{grid['table']}: {grid['rows']:,} of {grid['combinations']:,} combinations are rows, {out:,} are excluded{twice}"]
    return lines + [f"  {each['combinations']:,}: {each['line']}" for each in grid["excluded"]]


MOST_ROWS, LAST_ROWS = 200, 10


def _plan_table(found: Plan) -> Any:
    """The rows as a table; of more than MOST_ROWS the first and the last."""
    from rich.table import Table

    from orchestrator.cost.planned import short
    from orchestrator.safe_text import cell

    out = Table()
    for name, justify in (
        ("row", "left"),
        ("seed", "right"),
        ("params", "right"),
        ("FLOP/update", "right"),
        ("FLOP", "right"),
        ("time", "right"),
        ("memory", "right"),
        ("rate", "left"),
        ("train key", "left"),
        ("status", "left"),
    ):
        out.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    rows = (*found.parents, *found.rows)
    for number, row in enumerate(rows):
        if len(rows) > MOST_ROWS and MOST_ROWS - LAST_ROWS <= number < len(rows) - LAST_ROWS:
            if number == MOST_ROWS - LAST_ROWS:
                out.add_row(f"({len(rows) - MOST_ROWS:,} rows more; --json prints all)")
            continue
        status = (
            row.status
            + (f" as {row.same_as}" if row.status == "shared" else "")
            + (f": {row.reason}" if row.reason else "")
            + (" (others start from it)" if row in found.parents else "")
        )
        params = "?" if row.params is None else f"{row.params:,}"
        rate = found.rates.get(row.id, "")
        out.add_row(cell(row.id), str(row.seed), params, *short(row.cost), rate, (row.keys.train or "")[:16], cell(status))
    return out


def show(
    target: Annotated[str, typer.Argument(metavar="ROW|FILE", help="paper/table/row or FILE.yaml#row.")],
    seed: Seed = None,
    profile: Profile = None,
    sets: Sets = None,
) -> None:
    """The resolved row as YAML that needs no other file: `nmt-ablate run` accepts it.

    Example:  nmt-ablate show dou2018/table1/row9 > row9.yaml
    """
    import sys

    from orchestrator.errors import UserError
    from orchestrator.specs.rows import resolve
    from orchestrator.specs.show import to_yaml

    rows = resolve(target, sets=sets, profile=profile, seed=seed)
    if len(rows) > 1:
        raise UserError(f"{target}: found {len(rows)} rows; expected one: {', '.join(row.id for row in rows[:24])}")
    sys.stdout.write(to_yaml(rows[0]))


def list_rows(
    prefix: Annotated[str, typer.Argument(help="Only addresses that start so (a table lists its rows), or the tables of a folder.")] = "",
    as_json: AsJson = False,
) -> None:
    """Tables, or the rows of one.

    Example:  nmt-ablate list dou2018/table1
    """
    from orchestrator.cli.options import emit, note
    from orchestrator.errors import UserError
    from orchestrator.safe_text import visible
    from orchestrator.specs.index import find_all, tables
    from orchestrator.specs.resolver import written

    known, problems = tables()
    if prefix and prefix not in known and Path(prefix).is_dir():
        known, prefix = {target.table.address: target.table for target in find_all(prefix)}, ""
    inside = {address: table for address, table in known.items() if prefix.startswith(f"{address}/")}
    rows = [
        {"id": f"{address}/{name}", "label": raw.head.label or name, "kind": raw.head.kind, "file": table.document.file}
        for address, table in known.items()
        for name, raw in (table.rows if address in inside else written(table)).items()
    ]
    chosen = [row for row in rows if row["id"].startswith(prefix)]
    grids = [
        {"table": address, "axes": ", ".join(axis.name for axis in table.grid.axes), "file": table.document.file}
        for address, table in known.items()
        if table.grid is not None and address not in inside and address.startswith(prefix)
    ]
    if not chosen and not grids:
        raise UserError(f"{prefix!r}: no row has such an address; tables: {', '.join(known) or 'none'}", *problems)
    if as_json:
        emit({"rows": chosen, "grids": grids})
    elif prefix:
        for row in chosen:
            typer.echo(visible(f"{row['id']:<44} {row['kind']:<9} {row['label']}"))
        for grid in grids:
            hint = f"(plan counts its rows, list {grid['table']}/ lists them)"
            typer.echo(f"{grid['table'] + '/..':<44} {'grid':<9} {grid['axes']} {hint}")
    else:
        for address, table in known.items():
            grid_too = "" if table.grid is None else f" and a grid of {len(table.grid.axes)} axes"
            typer.echo(visible(f"{address:<32} {len(written(table)):>3} rows   {table.document.file}{grid_too}"))
    for line in problems:
        note(f"warning: {line}")
