"""From an address or a file to resolved rows: file -> profile -> `--set`, validated after each, parents of `init_from` included."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs import check, index, links, overrides, profiles, scorings, templates
from orchestrator.specs.grid import named_rows
from orchestrator.specs.located import Marked
from orchestrator.specs.overrides import Override
from orchestrator.specs.raw import RawRow, TableFile
from orchestrator.specs.schema import RunSpec, ScoreSpec
from orchestrator.specs.scorings import Figures
from orchestrator.specs.table import Sweep

MAX_RUNS = 10_000


@dataclass(frozen=True)
class Row:
    """A line of a table.

    `spec` is None for rows that are quoted or analyses; `parent` is the resolved row that `init_from` names, with the same seed.
    also: name -> another scoring of the same training. means: name -> figures (named in `also`, or `bleu`) it is the mean of.
    of: addresses of the rows that an analysis looks at. analysis: the kind of analysis that the row is, or is there for.
    significance: whose p-values mark it (`analysis.rules`). failed_below: BLEU under which it counts as failed (`outcome`).
    """

    id: str
    label: str
    kind: str
    spec: RunSpec | None
    expect: dict[str, float | str | bool | None]
    assumed: list[str]
    workers: int
    pinned: bool
    source_file: str
    line: int
    parent: Row | None = field(default=None, repr=False)
    also: dict[str, ScoreSpec] = field(default_factory=dict)
    means: dict[str, list[str]] = field(default_factory=dict)
    of: list[str] = field(default_factory=list)
    analysis: str | None = None
    note: str = ""
    significance: str | None = None
    failed_below: float | None = None

    def at(self, seed: int) -> Row:
        """The same row, and its parents, with another seed."""
        if self.spec is None:
            return self
        return replace(self, spec=self.spec.model_copy(update={"seed": seed}), parent=self.parent and self.parent.at(seed))


def resolve(
    address_or_file: str | Path, *, sets: list[str] | None = None, profile: str | None = None, seed: int | None = None
) -> list[Row]:
    """The row, or all rows of the table, file or folder of tables. UserError with one line for every problem of the files.

    Accepts `paper/table`, `paper/table/row[/part]`, `FILE.yaml`, `FILE.yaml#row`, `FOLDER` and files that `show` printed.
    """
    resolver = Resolver(overrides.parse(list(sets or [])), profile, 1 if seed is None else seed)
    problems: list[str] = []
    rows: list[Row] = []
    for target in index.find_all(str(address_or_file)):
        if target.table.is_single:
            from orchestrator.specs.show import read_single

            rows.append(read_single(target.table, resolver if sets or profile else None, seed))
            continue
        try:
            rows += _rows(target, resolver)
        except UserError as error:
            problems += error.lines
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return rows


def _rows(target: index.Target, resolver: Resolver) -> list[Row]:
    validate(target.table)
    grid = target.table.grid
    names = list(written(target.table)) if target.row is None else [target.row]
    if not names and grid is None:
        raise UserError(f"{target.table.document.file}:1: rows: found none; expected at least one")
    problems: list[str] = []
    rows: list[Row] = []
    for name in names:
        try:
            rows.append(resolver.row(target.table, name))
        except UserError as error:
            problems += error.lines
    if grid is not None and target.row is None and not problems:
        from orchestrator.specs.grid import rows as grid_rows

        found = grid_rows.assemble(target.table, resolver)
        rows, problems = rows + found.rows, found.problems
    if problems:
        raise UserError(*problems)
    return rows


def sweep_of(address_or_file: str | Path, profile: str | None = None) -> Sweep:
    """The file's sweep section, or the default one: seed 1, every row to its full budget.

    Under a profile, rungs beyond its steps are dropped. Of a folder: all seeds of its tables, and none of them may cut rows (UserError).
    """
    tables = [target.table for target in index.find_all(str(address_or_file))]
    if len(tables) > 1:
        return _union(tables)
    sweep = tables[0].sweep or Sweep()
    steps = None if profile is None else profiles.load(profile)[0].train.get("max_steps")
    if not isinstance(steps, int):
        return sweep
    rungs = [rung for rung in sweep.scheduler.rungs if rung < steps]
    kind = sweep.scheduler.kind if rungs else "fifo"
    return sweep.model_copy(update={"scheduler": sweep.scheduler.model_copy(update={"rungs": rungs, "kind": kind})})


def _union(tables: list[TableFile]) -> Sweep:
    sweeps = [table.sweep or Sweep() for table in tables]
    problems = [
        table.document.mark(("sweep", "scheduler", "kind")).line(f"found {sweep.scheduler.kind}; expected fifo in every table of a folder")
        for table, sweep in zip(tables, sweeps, strict=True)
        if sweep.scheduler.kind != "fifo"
    ]
    if problems:
        raise UserError(*problems)
    seeds = list(dict.fromkeys(seed for sweep in sweeps for seed in sweep.seeds))
    limits = [sweep.concurrency for sweep in sweeps if sweep.concurrency is not None]
    return Sweep(seeds=sorted(seeds), concurrency=min(limits, default=None))


def validate(table: TableFile) -> None:
    """UserError with every problem of the file, sorted by line: structure, specs, init_from."""
    problems = list(table.problems)
    for raw in written(table).values():
        if raw.head.kind == "run":
            spec, found = check.check(raw.spec)
            problems += found if spec is None else scorings.resolve(raw.figures.also, spec)[1]
        problems += links.problems_of(table, raw)
    problems += templates.misspelt(table.templates, {name: raw.head.use for name, raw in written(table).items()}, table.shared)
    if table.grid is not None:
        problems += named_rows.problems_of(table)
    if not problems and table.grid is not None:
        from orchestrator.specs.grid import rows as grid_rows

        problems += grid_rows.assemble(table, Resolver([], None, 1)).problems
    if not problems and table.sweep is not None:
        problems += _rungs(table)
    if problems:
        raise UserError(*sorted(dict.fromkeys(problems), key=_position))


def written(table: TableFile) -> dict[str, RawRow]:
    """The rows that stand in the file by name, without those of its grid."""
    return table.rows.written if isinstance(table.rows, named_rows.GridRows) else table.rows


class Resolver:
    """Resolves rows under one set of overrides, profile and seed."""

    def __init__(self, sets: list[Override], profile: str | None, seed: int) -> None:
        self.sets, self.seed = sets, seed
        self.profile = None if profile is None else profiles.load(profile)

    def row(self, table: TableFile, name: str, sets: list[Override] | None = None, chain: tuple[str, ...] = ()) -> Row:
        """UserError for a row that the overrides or the profile make invalid, or whose parents go in a circle."""
        sets = self.sets if sets is None else sets
        raw, row_id = table.rows[name], f"{table.address}/{name}"
        where, _, line = raw.mark.where.rpartition(":")
        spec: RunSpec | None = None
        parent: Row | None = None
        also: dict[str, ScoreSpec] = {}
        if raw.head.kind == "run":
            address = None
            if raw.head.init_from is not None:
                if row_id in chain:
                    raise UserError(raw.mark.under("init_from").line(f"found a circle: {' -> '.join((*chain, row_id))}"))
                home, parent_name = links.parent(table, raw)
                address = f"{home.address}/{parent_name}"
                validate(home) if home is not table else None
                reach = overrides.for_parent(sets, raw.spec.data, home.rows[parent_name].spec.data)
                parent = self.row(home, parent_name, reach, (*chain, row_id))
            spec = self.spec(raw.spec, sets, address)
            also = self.also(raw.figures, spec)
        assumed = list(dict.fromkeys([*table.assumed, *raw.head.assumed])) if spec is not None else raw.head.assumed
        head = raw.head
        return Row(
            row_id,
            head.label or name,
            head.kind,
            spec,
            head.expect,
            assumed,
            head.workers,
            head.pinned,
            where,
            int(line),
            parent,
            also=also,
            means=dict(raw.figures.means.data),
            of=links.subjects(table, raw),
            analysis=raw.figures.analysis,
            note=head.note,
            significance=raw.figures.significance,
            failed_below=self.bound(raw.figures.failed_below),
        )

    def spec(self, row: Marked, sets: list[Override], init_from: str | None, *, fit: bool = True) -> RunSpec:
        """File, then profile, then overrides. fit: as in `spec_check.check`."""
        spec, problems = check.check(row, seed=self.seed, init_from=init_from, fit=fit)
        if spec is not None and (self.profile is not None or sets):
            data = spec.model_dump(exclude={"seed", "init_from"})
            scaled = Marked(data, row.home, row.marks)
            if self.profile is not None:
                scaled = profiles.apply(scaled, *self.profile)
            scaled, problems = overrides.apply(scaled, sets)
            if not problems:
                spec, problems = check.check(scaled, seed=self.seed, init_from=init_from, fit=fit)
        if spec is None or problems:
            raise UserError(*problems)
        return spec

    def bound(self, stated: float | None) -> float | None:
        """BLEU under which the row counts as failed: its own bound, or the profile's where it has one at all."""
        of_profile = None if self.profile is None else self.profile[0].failed_below
        return stated if stated is None or of_profile is None else of_profile

    def also(self, figures: Figures, spec: RunSpec) -> dict[str, ScoreSpec]:
        """The row's other scorings, from its resolved spec."""
        test = None if self.profile is None else self.profile[0].score.get("test")
        found, problems = scorings.resolve(figures.also, spec, test)
        if problems:
            raise UserError(*problems)
        return found


def _rungs(table: TableFile) -> list[str]:
    """A rung that no row ever reaches is a mistake."""
    assert table.sweep is not None
    last = max(table.sweep.scheduler.rungs, default=0)
    steps = [raw.spec.data["train"].get("max_steps") for raw in written(table).values() if raw.head.kind == "run"]
    steps += [table.shared.data["train"].get("max_steps")] if table.grid is not None else []
    if last and steps and all(isinstance(s, int) and s < last for s in steps):
        mark = table.document.mark(("sweep", "scheduler", "rungs"))
        return [mark.line(f"found a rung at step {last}; expected at most train.max_steps, {max(steps)}")]
    return []


def _position(line: str) -> tuple[str, int]:
    """Sort key of an error line: file, then line number."""
    file, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return file, int(number) if number.isdigit() else 0


def runs(rows: list[Row], seeds: list[int], force: bool = False) -> list[tuple[Row, int]]:
    """Every row that runs, with every seed, rows first. UserError above MAX_RUNS unless forced."""
    todo = [row for row in rows if row.kind == "run"]
    if len(todo) * len(seeds) > MAX_RUNS and not force:
        raise UserError(f"found {len(todo)} rows x {len(seeds)} seeds; expected at most {MAX_RUNS} runs")
    return [(row, seed) for seed in seeds for row in todo]


def as_data(row: Row) -> dict[str, Any]:
    """The row's head as plain data, without its spec."""
    also = {} if row.spec is None else {name: scorings.differences(score, row.spec.score) for name, score in row.also.items()}
    head: dict[str, Any] = {"id": row.id, "label": row.label, "kind": row.kind, "expect": dict(row.expect), "assumed": list(row.assumed)}
    if row.workers != 1:
        head["workers"] = row.workers
    if row.pinned:
        head["pinned"] = True
    rest = {"also": also, "means": dict(row.means), "of": list(row.of), "analysis": row.analysis, "note": row.note}
    rest["significance"] = row.significance
    bound = {} if row.failed_below is None else {"failed_below": row.failed_below}
    return head | {name: value for name, value in rest.items() if value} | bound
