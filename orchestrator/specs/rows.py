"""Resolves an address or a file to rows: file, then profile, then `--set`, validated after each; includes parents (`init_from`)."""

from itertools import chain
from pathlib import Path

from orchestrator.errors import UserError, for_each, raise_all
from orchestrator.specs import index, profiles
from orchestrator.specs.positions import shown
from orchestrator.specs.resolver import Resolver, check_written, refuse
from orchestrator.specs.row import Row
from orchestrator.specs.show import read_single
from orchestrator.specs.sweep import SweepSpec
from orchestrator.specs.table_file import TableFile

MAX_RUNS = 20_000
MOST_LINES = 20
"""Problems of a grid's rows that are listed."""


def resolve(
    address_or_file: str | Path | list[index.Target], *, sets: list[str] | None = None, profile: str | None = None, seed: int | None = None
) -> list[Row]:
    """Returns the row, or all rows of a table, file or folder of tables. Raises UserError with one line per problem.

    Accepts what `index.find` does, folders and files printed by `show`. Matched controls are resolved by `cost.controls.resolve`.
    """
    resolver = Resolver(profiles.parse_sets(list(sets or [])), profile, 1 if seed is None else seed)

    def rows(target: index.Target) -> list[Row]:
        return [read_single(target.table, resolver, seed)] if target.table.is_single else _rows(target, resolver)

    return list(chain.from_iterable(for_each(rows, index.find_all(address_or_file))))


def _rows(target: index.Target, resolver: Resolver) -> list[Row]:
    table = target.table
    if target.control is not None:
        raise UserError(f"{shown(f'{table.address}/{target.row}', 200)}: a matched control; expected a row, such as {target.control[0]}")
    check_written(table)
    names = target.rows or list(table.written)
    if not names and table.grid is None:
        raise UserError(f"{table.document.file}:1: rows: found none; expected at least one")
    rows = for_each(lambda name: resolver.row(table, name), names)
    if table.grid is not None and not target.rows:
        found, problems = grid_rows(table, resolver)
        raise_all(problems)
        rows += found
    return rows


def validate(table: TableFile) -> None:
    """Raises UserError with every problem of the file, sorted by line; the rows of a grid are checked once the file itself is valid."""
    check_written(table)
    if table.grid is not None:
        refuse(grid_rows(table, Resolver([], None, 1))[1])


def grid_rows(table: TableFile, resolver: Resolver) -> tuple[list[Row], list[str]]:
    """Returns the rows of the table's grid and the problems."""
    grid = table.grid
    assert grid is not None
    rows: list[Row] = []
    lines: dict[str, None] = {}
    for name in grid.combinations:
        try:
            rows.append(resolver.row(table, name))
        except UserError as error:
            lines |= dict.fromkeys(error.lines)
    problems = list(lines)[:MOST_LINES]
    if len(lines) > MOST_LINES:
        problems.append(f"{grid.position.where}: grid: and {len(lines) - MOST_LINES} problems more")
    if not rows and not lines:
        problems = [grid.position.line("every combination is excluded; expected at least one row")]
    return rows, problems


def sweep_of(address_or_file: str | Path | list[index.Target], profile: str | None = None) -> SweepSpec:
    """Returns the sweep section of a file, or the default: seed 1, every row with its full budget.

    Rungs beyond the steps of the profile are dropped. For a folder, returns all seeds of its tables; raises UserError if a table has a
    scheduler other than fifo.
    """
    tables = [target.table for target in index.find_all(address_or_file)]
    if len(tables) > 1:
        return _union(tables)
    sweep = tables[0].sweep or SweepSpec()
    steps = None if profile is None else profiles.load(profile)[0].train.get("max_steps")
    if not isinstance(steps, int):
        return sweep
    rungs = [rung for rung in sweep.scheduler.rungs if rung < steps]
    kind = sweep.scheduler.kind if rungs else "fifo"
    return sweep.model_copy(update={"scheduler": sweep.scheduler.model_copy(update={"rungs": rungs, "kind": kind})})


def _union(tables: list[TableFile]) -> SweepSpec:
    sweeps = [table.sweep or SweepSpec() for table in tables]
    problems = [
        table.document.at(("sweep", "scheduler", "kind")).line(f"found {sweep.scheduler.kind}; expected fifo in every table of a folder")
        for table, sweep in zip(tables, sweeps, strict=True)
        if sweep.scheduler.kind != "fifo"
    ]
    raise_all(problems)
    seeds = list(dict.fromkeys(seed for sweep in sweeps for seed in sweep.seeds))
    limits = [sweep.concurrency for sweep in sweeps if sweep.concurrency is not None]
    return SweepSpec(seeds=sorted(seeds), concurrency=min(limits, default=None))


def runs(rows: list[Row], seeds: list[int], force: bool = False) -> list[tuple[Row, int]]:
    """Returns every (row, seed) of the rows of kind run, all rows of a seed before the next seed.

    Raises UserError above MAX_RUNS unless forced.
    """
    todo = [row for row in rows if row.kind == "run"]
    if len(todo) * len(seeds) > MAX_RUNS and not force:
        raise UserError(f"found {len(todo)} rows x {len(seeds)} seeds; expected at most {MAX_RUNS} runs")
    return [(row, seed) for seed in seeds for row in todo]
