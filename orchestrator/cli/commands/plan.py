"""`plan`."""

from collections.abc import Sequence
from typing import Any

import typer
from rich.table import Table

from orchestrator.cli.commands import tune
from orchestrator.cli.commands.request import Request, open_ledger
from orchestrator.cli.commands.sizes import at_sizes
from orchestrator.cli.output import console, print_json
from orchestrator.cost import plan_costs
from orchestrator.cost.estimate import Cost, Costs
from orchestrator.errors import for_each
from orchestrator.files.folders import make
from orchestrator.ledger.component_sources import warnings
from orchestrator.ledger.results import Ledger
from orchestrator.report import noise_floor
from orchestrator.report.claims import reported_claims
from orchestrator.report.effects import main_metric
from orchestrator.report.find import Finder, is_shipped
from orchestrator.safe_text import log
from orchestrator.scoring.significance.sentence_statistics import TITLES
from orchestrator.specs.claims import RowClaim, of_table
from orchestrator.specs.grid.explain import summary
from orchestrator.specs.row import Row, baseline, by_table, short_id, starts
from orchestrator.specs.rows import sweep_of
from orchestrator.specs.table_file import TableFile
from orchestrator.specs.tune import TuneSpec
from orchestrator.sweeps.forecast import short_names
from orchestrator.sweeps.names import parse_seeds
from orchestrator.sweeps.options import RowOptions
from orchestrator.sweeps.plan import Data, Plan, Planned
from orchestrator.sweeps.plan import plan as plan_rows
from orchestrator.tables import cell, counted, make_table
from orchestrator.tuning import choice
from orchestrator.tuning.search import arms_of

MAX_ROWS, END_ROWS = 50, 5
"""Maximum number of rows of a table that is printed whole, and number of first and last rows that are printed of a longer one."""

COLUMNS = ("row", "seeds", "params", "FLOP/update", "FLOP", "time", "memory", "rate", "status")
"""Columns. A column without information on any row is left out. Time and FLOP are for one seed."""
STATUSES = ("new", "shared", "done", "failed", "stopped", "needs-data")


def plan(targets: list[str], options: RowOptions, seeds: str | None, **settings: Any) -> None:
    """Prints the work and the costs of rows at each size. settings: see `_plan`."""
    for size in (sizes := at_sizes(options, *targets)):
        if len(sizes) > 1:
            log(f"size {size.profile}:")
        _plan(targets, size, seeds, **settings)


def _plan(targets: list[str], options: RowOptions, seeds: str | None, *, force: bool, max_probes: int, as_json: bool) -> None:
    """Prints the plan of one size. max_probes: maximum number of new probes."""
    data, ledger, requested = Data(options.data_dir, options.cache_dir), open_ledger(options.results), parse_seeds(seeds)
    requests = for_each(lambda target: Request.of(target, options, data=data, preparing=max_probes > 0), dict.fromkeys(targets))
    rows = [row for request in requests for row in request.rows]
    found = [each for request in requests for each in request.found]
    sections = for_each(lambda request: sweep_of(request.found, options.profile), requests)
    default_seeds = {seed for section in sections for seed in section.seeds}
    grids = [each.table for each in found if not each.rows and each.table.grid is not None]

    tuning, arms, searched = None, [row for row in rows if row.kind == "run"], dict[str, Any]()
    if tune.wanted(options):
        tuning = tune.tuning_of([each.table for each in found], options.tune_with)
        requested, section = tune.judging(tuning, requested), choice.plain(tuning.spec)
        arms_of(arms, tuning)  # UserError if a value does not fit
        of_rows = choice.used(arms, Finder(ledger, data), tuning.spec)
        searched = {row: record for row, record in of_rows.items() if choice.section_of(record) == section}
        rows = [choice.apply(row, searched[row.id]) if row.id in searched else row for row in rows]
    costs = Costs(data, options.results)
    problems: list[str] = []
    if max_probes:
        make(options.results, "--results")
        problems = costs.probe(rows, options.cache_dir, max_probes, log)
    planned_rows = plan_rows(rows, requested or sorted(default_seeds), ledger=ledger, force=force, data=data)
    cost = costs.of_all(rows)
    sums = plan_costs.totals(planned_rows.every, cost)
    stated = [claim for each in found for claim in of_table(each.table.address, each.table.head.claims)]
    power = _power(rows, requested or sorted(default_seeds), ledger, stated)
    search = {} if tuning is None else _search(tuning.spec, [row for row in arms if row.id not in searched], len(searched), cost)
    record = {"profile": options.profile} | planned_rows.as_json() | {"cost": {name: each.as_json() for name, each in sums.items()}}
    shipped = {(row.id, row.seed) for row in planned_rows.every if row.status == "done" and is_shipped(ledger, row.keys.train)}
    for each in (*record["parents"], *record["rows"]):
        each |= {"cost": cost[each["id"]].as_json(), "shipped": (each["id"], each["seed"]) in shipped}
    rates = {planned_rows.rates.get(row.id, "") for row in planned_rows.every}
    rate = rates.pop() if len(rates) == 1 and len({row.id for row in planned_rows.every}) > 1 else ""
    if as_json:
        print_json(record | {"grids": [summary(grid) for grid in grids], "power": power} | ({"search": search} if search else {}))
    else:
        console().print(_table(planned_rows, cost, shipped, "rate" if rate else ""))

    totals = record["totals"]
    told = {name: f"{totals[name]} {name}" for name in STATUSES if name in totals}
    if number := sum(each["shipped"] for each in record["rows"]):
        told["done"] += f" ({'all' if number == totals['done'] else number} shipped with the product)"
    parents = f", {number} of rows that others start from" if (number := len(planned_rows.parents_to_train)) else ""
    left = f"{counted(planned_rows.trainings, 'training')} to do{parents}"
    for line in (
        f"{counted(totals['runs'], 'run')}: {', '.join(told.values()) or 'none'}; {left}",
        *([f"rate of every row: {rate}"] if rate else []),
        *(f"warning: {line}" for line in warnings({(row.id, row.seed): row.changed for row in planned_rows.every}, options.arguments)),
        *(line for grid in grids for line in _grid_lines(grid)),
        *planned_rows.notes,
        *plan_costs.lines(sums, [cost[row.id] for row in planned_rows.every], sections[-1].scheduler.model_dump()),
        *_search_lines(search),
        *choice.unscored(searched),
        *(line for table, found in power.items() for line in _power_lines(table, found, tuned=bool(search))),
        *problems,
    ):
        log(line)
    if problems:
        raise typer.Exit(1)


def _search(spec: TuneSpec, rows: list[Row], searched: int, cost: dict[str, Cost]) -> dict[str, Any]:
    """Returns the maximum cost of the searches of these rows, besides the judging trainings. searched: number of other arms."""
    whole = {row.id: spec.trainings(cost[row.id].updates) for row in rows}
    known = [whole[row.id] * seconds * cost[row.id].devices for row in rows if (seconds := cost[row.id].seconds) is not None]
    trainings = len(rows) * spec.trials * len(spec.seeds.search)
    found: dict[str, Any] = {"arms": len(rows), "searched": searched, "trials": spec.trials, "trainings": trainings}
    found["whole_trainings"] = round(sum(whole.values()), 2)
    return found | {"hours": round(sum(known) / 3600, 6) if len(known) == len(rows) else None}


def _search_lines(search: dict[str, Any]) -> list[str]:
    if not search:
        return []
    hours = "" if search["hours"] is None else f", {search['hours']:.3g} device-hours"
    whole = f"at most as long as {search['whole_trainings']:g} whole trainings" if search["whole_trainings"] < search["trainings"] else ""
    about = f"{counted(search['trainings'], 'training')} of {counted(search['arms'], 'arm')} x {search['trials']} trials"
    about = f"search before  {about}{', ' * bool(whole)}{whole}{hours}; then each arm's best configuration runs in place of its row above"
    done = f"searched: {counted(search['searched'], 'arm')}; the rows @tuned above are their best configurations"
    return [about] * bool(search["arms"]) + [done] * bool(search["searched"])


def _power(rows: list[Row], seeds: list[int], ledger: Ledger, stated: Sequence[RowClaim]) -> dict[str, dict[str, Any]]:
    """Returns table -> effects that these seeds can detect, for tables whose recipe has a noise floor. stated: claims of the files."""
    found = {}
    for table, own in by_table(row for row in rows if row.kind == "run").items():
        base = next(row for row in own if row.id == baseline(own))
        metric, here = main_metric(base), {row.id for row in own}
        floor = noise_floor.load(ledger, base.run_spec, metric)
        if floor is not None:
            asked = [*reported_claims(own, starts(own, None)), *(claim for claim in stated if claim.row in here)]
            claims = {claim.row: claim.effect for claim in asked if claim.effect and claim.metric in (None, metric)}
            found[table] = noise_floor.power(floor, len(own), len(seeds), claims) | {"metric": metric}
    return found


def _power_lines(table: str, power: dict[str, Any], *, tuned: bool) -> list[str]:
    choice = "; the choice of a search adds to this" if tuned else ""
    whose, metric = "" if power["same_family"] else ", another recipe on this test set", TITLES[power["metric"]]
    lines = [f"{table}: {metric} varies by {power['sd']:.2f} over seeds ({power['df'] + 1} seeds of {power['floor']}{whose})"]
    if power["mde"] is None:
        lines.append(f"{table}: one seed decides nothing; give two or more (--seeds 1,2,3)")
    else:
        lines.append(f"{table}: {power['seeds']} seeds a row detect {power['mde']:.2f} {metric} with 80 % power, on this test set{choice}")
    known = {row: needed for row, needed in power["seeds_needed"].items() if needed is None or needed > power["seeds"]}
    if known:
        each = ", ".join(f"{short_id(row)} {'over 200' if needed is None else needed}" for row, needed in list(known.items())[:12])
        lines.append(f"{table}: seeds that would detect the claimed effects: {each}{', ..' if len(known) > 12 else ''}")
    return lines


def _grid_lines(table: TableFile) -> list[str]:
    """Returns lines with the number of combinations of a grid that are rows, its axes, and its exclusions."""
    assert table.grid is not None
    grid = summary(table)
    excluded = grid["combinations"] - grid["rows"]
    twice = f"; {grid['drawn_twice']:,} draws came out as others" if grid["drawn_twice"] else ""
    lines = [f"{grid['table']}: {grid['rows']:,} of {grid['combinations']:,} combinations are rows, {excluded:,} are excluded{twice}"]
    lines += [f"  axis {axis.described}" for axis in table.grid.axes]
    return lines + [f"  {each['combinations']:,}: {each['line']}" for each in grid["excluded"]]


def _table(planned_rows: Plan, cost: dict[str, Cost], shipped: set[tuple[str, int]], without: str) -> Table:
    """Returns a line per row; seeds with equal content share a line. Above MAX_ROWS only the first and last rows."""
    rows = planned_rows.every
    short = short_names([row.id for row in rows])
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        params = "?" if row.params is None else f"{row.params:,}"
        costs, status = plan_costs.short(cost[row.id]), _status(row, row in planned_rows.parents, (row.id, row.seed) in shipped)
        lines.setdefault((short[row.id], params, *costs, planned_rows.rates.get(row.id, ""), status), []).append(str(row.seed))
    cells = [(name, ",".join(seeds), *others) for (name, *others), seeds in lines.items()]
    said = [n for n, name in enumerate(COLUMNS) if n < 2 or (name != without and any(line[n] not in ("", "?") for line in cells))]
    table = make_table([COLUMNS[n] for n in said], numeric=("seeds", "params", "FLOP/update", "FLOP", "time", "memory"))
    for column in table.columns[1:]:
        column.no_wrap = column.header not in ("rate", "status")
        column.overflow = "ellipsis" if column.no_wrap else "fold"
    for number, line in enumerate(cells):
        if len(cells) <= MAX_ROWS or not END_ROWS <= number < len(cells) - END_ROWS:
            table.add_row(*(cell(line[n]) for n in said))
        elif number == END_ROWS:
            table.add_row(f"({len(cells) - 2 * END_ROWS:,} rows more: --json)")
    return table


def _status(row: Planned, is_parent: bool, shipped: bool) -> str:
    status = row.status + (" (shipped)" if shipped else "") + (f" as {row.same_as}" if row.status == "shared" else "")
    return status + (f": {row.reason}" if row.reason else "") + (" (others start from it)" if is_parent else "")
