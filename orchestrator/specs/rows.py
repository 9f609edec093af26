"""Resolves an address or a file to rows: file, then profile, then `--set`, validated after each; includes parents (`init_from`)."""

from itertools import chain
from pathlib import Path

from orchestrator.errors import UserError, for_each, raise_all
from orchestrator.specs import index, profiles
from orchestrator.specs.controls import TUNED
from orchestrator.specs.positions import shown
from orchestrator.specs.resolver import Resolver, check_written
from orchestrator.specs.row import Row
from orchestrator.specs.show import read_single
from orchestrator.specs.sweep import SweepSpec
from orchestrator.specs.table_file import TableFile

TAKE_TUNED = "show, plan, run, sweep, table, report, verdict, translate, export and repro"
MAX_RUNS = 20_000
MOST_LINES = 20
"""Maximum number of problems that are listed for a table's rows."""


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
    if target.tuned:
        raise UserError(f"{shown(f'{table.address}/{target.row}', 200)}{TUNED}: expected a row as written; {TAKE_TUNED} take tuned rows")
    if target.control is not None:
        raise UserError(f"{shown(f'{table.address}/{target.row}', 200)}: a matched control; expected a row, such as {target.control[0]}")
    check_written(table)
    names = target.rows or list(table.rows)
    if not names:
        raise UserError(f"{table.document.file}:1: rows: found none; expected at least one")
    try:
        return for_each(lambda name: resolver.row(table, name), names)
    except UserError as error:
        more = len(error.lines) - MOST_LINES
        raise UserError(*error.lines[:MOST_LINES], *[f"{table.document.file}:1: and {more} problems more"] * (more > 0)) from None


def sweep_of(address_or_file: str | Path | list[index.Target], profile: str | None = None) -> SweepSpec:
    """Returns the sweep section of a file, or the default: seed 1, every row with its full budget.

    Rungs beyond the most steps of the profile are dropped. For a folder, returns all seeds of its tables; raises UserError if a table has a
    scheduler other than fifo, or other resources than the first.
    """
    tables = [target.table for target in index.find_all(address_or_file)]
    if len(tables) > 1:
        return _union(tables)
    sweep = tables[0].head.sweep or SweepSpec()
    if profile is None or not isinstance((scale := profiles.load(profile)[0]).train.get("max_steps"), int):
        return sweep
    steps = max(each.train.get("max_steps") or 0 for each in (scale, *scale.corpora.values()))
    rungs = [rung for rung in sweep.scheduler.rungs if rung < steps]
    kind = sweep.scheduler.kind if rungs else "fifo"
    return sweep.model_copy(update={"scheduler": sweep.scheduler.model_copy(update={"rungs": rungs, "kind": kind})})


def _union(tables: list[TableFile]) -> SweepSpec:
    sweeps = [table.head.sweep or SweepSpec() for table in tables]
    problems: list[str] = []
    for table, sweep in zip(tables, sweeps, strict=True):
        at, kind, same = table.document.at, sweep.scheduler.kind, sweep.resources == sweeps[0].resources
        if kind != "fifo":
            problems.append(at(("sweep", "scheduler", "kind")).line(f"found {kind}; expected fifo in every table of a folder"))
        problems += [] if same else [at(("sweep", "resources")).line("found others; expected the same in every table of a folder")]
    raise_all(problems)
    seeds = list(dict.fromkeys(seed for sweep in sweeps for seed in sweep.seeds))
    limits = [sweep.concurrency for sweep in sweeps if sweep.concurrency is not None]
    return SweepSpec(seeds=sorted(seeds), concurrency=min(limits, default=None), resources=sweeps[0].resources)


def runs(rows: list[Row], seeds: list[int], force: bool = False) -> list[tuple[Row, int]]:
    """Returns every (row, seed) of the rows of kind run, all rows of a seed before the next seed.

    Raises UserError above MAX_RUNS unless forced, and for two specs of one address: a run is known by address and seed.
    """
    todo = [row for row in rows if row.kind == "run"]
    if len(todo) * len(seeds) > MAX_RUNS and not force:
        raise UserError(f"found {len(todo)} rows x {len(seeds)} seeds; expected at most {MAX_RUNS} runs")
    first: dict[str, tuple[Row, str]] = {}
    for row in todo:
        for each in row.lineage:
            known, of = first.setdefault(each.id, (each, row.id))
            if known is not each and known.at(0).spec != each.at(0).spec:
                words = f"found two specs of it, for {of} and for {row.id}, as --set reaches one alone"
                raise UserError(f"{each.id}: {words}; expected a command for each")
    return [(row, seed) for seed in seeds for row in todo]
