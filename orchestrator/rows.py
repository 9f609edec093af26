"""From an address or a file to resolved rows: file -> profile -> `--set`, validated after each, parents of `init_from` included."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator import overrides, profiles, row_index, spec_check
from orchestrator.errors import UserError
from orchestrator.marked import Marked
from orchestrator.overrides import Override
from orchestrator.places import Mark, nearest, shown
from orchestrator.row_file import RawRow, TableFile
from orchestrator.row_schema import Sweep, segments
from orchestrator.spec import RunSpec

MAX_RUNS = 10_000


@dataclass(frozen=True)
class Row:
    """A line of a table.

    `spec` is None for rows that are quoted or analyses; `parent` is the resolved row that `init_from` names, with the same seed.
    """

    id: str
    label: str
    kind: str
    spec: RunSpec | None
    expect: dict[str, float | str | None]
    assumed: list[str]
    workers: int
    pinned: bool
    source_file: str
    line: int
    parent: Row | None = field(default=None, repr=False)

    def at(self, seed: int) -> Row:
        """The same row, and its parents, with another seed."""
        if self.spec is None:
            return self
        return replace(self, spec=self.spec.model_copy(update={"seed": seed}), parent=self.parent and self.parent.at(seed))


def resolve(
    address_or_file: str | Path, *, sets: list[str] | None = None, profile: str | None = None, seed: int | None = None
) -> list[Row]:
    """The row, or all rows of the table or file. UserError with one line for every problem of the file.

    Accepts `paper/table`, `paper/table/row[/part]`, `FILE.yaml`, `FILE.yaml#row` and files that `show` printed.
    """
    target = row_index.find(str(address_or_file))
    resolver = Resolver(overrides.parse(list(sets or [])), profile, 1 if seed is None else seed)
    if target.table.is_single:
        from orchestrator.show import read_single

        return [read_single(target.table, resolver if sets or profile else None, seed)]
    validate(target.table)
    names = list(target.table.rows) if target.row is None else [target.row]
    if not names:
        raise UserError(f"{target.table.document.file}:1: rows: found none; expected at least one")
    problems: list[str] = []
    rows: list[Row] = []
    for name in names:
        try:
            rows.append(resolver.row(target.table, name))
        except UserError as error:
            problems += error.lines
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return rows


def sweep_of(address_or_file: str | Path, profile: str | None = None) -> Sweep:
    """The file's sweep section, or the default one: seed 1, every row to its full budget.

    Under a profile, rungs beyond its steps are dropped.
    """
    sweep = row_index.find(str(address_or_file)).table.sweep or Sweep()
    steps = None if profile is None else profiles.load(profile)[0].train.get("max_steps")
    if not isinstance(steps, int):
        return sweep
    rungs = [rung for rung in sweep.scheduler.rungs if rung < steps]
    kind = sweep.scheduler.kind if rungs else "fifo"
    return sweep.model_copy(update={"scheduler": sweep.scheduler.model_copy(update={"rungs": rungs, "kind": kind})})


def validate(table: TableFile) -> None:
    """UserError with every problem of the file, sorted by line: structure, specs, init_from."""
    problems = list(table.problems)
    for raw in table.rows.values():
        if raw.head.kind == "run":
            problems += spec_check.check(raw.spec)[1]
        problems += _init_problems(table, raw)
    if not problems and table.sweep is not None:
        problems += _rungs(table)
    if problems:
        raise UserError(*sorted(dict.fromkeys(problems), key=_position))


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
        if raw.head.kind == "run":
            address = None
            if raw.head.init_from is not None:
                if row_id in chain:
                    raise UserError(raw.mark.under("init_from").line(f"found a circle: {' -> '.join((*chain, row_id))}"))
                home, parent_name = _parent(table, raw)
                address = f"{home.address}/{parent_name}"
                validate(home) if home is not table else None
                reach = overrides.for_parent(sets, raw.spec.data, home.rows[parent_name].spec.data)
                parent = self.row(home, parent_name, reach, (*chain, row_id))
            spec = self.spec(raw.spec, sets, address)
        assumed = list(dict.fromkeys([*table.assumed, *raw.head.assumed])) if spec is not None else raw.head.assumed
        head = raw.head
        return Row(row_id, head.label or name, head.kind, spec, head.expect, assumed, head.workers, head.pinned, where, int(line), parent)

    def spec(self, row: Marked, sets: list[Override], init_from: str | None) -> RunSpec:
        """File, then profile, then overrides."""
        spec, problems = spec_check.check(row, seed=self.seed, init_from=init_from)
        if spec is not None and (self.profile is not None or sets):
            data = spec.model_dump(exclude={"seed", "init_from"})
            scaled = Marked(data, row.home, row.marks)
            if self.profile is not None:
                scaled = profiles.apply(scaled, *self.profile)
            scaled, problems = overrides.apply(scaled, sets)
            if not problems:
                spec, problems = spec_check.check(scaled, seed=self.seed, init_from=init_from)
        if spec is None or problems:
            raise UserError(*problems)
        return spec


def _parent(table: TableFile, raw: RawRow) -> tuple[TableFile, str]:
    """Where the row lies that `init_from` names. UserError if nowhere."""
    name = raw.head.init_from or ""
    mark = Mark(table.document.mark(("rows", raw.name, "init_from")).where, ("rows", raw.name, "init_from"))
    if name in table.rows:
        home, row = table, name
    elif segments(name, 3, 4) and name.startswith(table.address + "/") and name[len(table.address) + 1 :] in table.rows:
        home, row = table, name[len(table.address) + 1 :]
    elif segments(name, 3, 4):
        try:
            target = row_index.find(name)
        except UserError as error:
            raise UserError(mark.line(f"found '{name}': {error.lines[0]}")) from None
        home, row = target.table, target.row or ""
    else:
        raise UserError(mark.line(f"found '{shown(name)}'; {nearest(name, table.rows)}"))
    if home.rows[row].head.kind != "run":
        raise UserError(mark.line(f"found '{name}', a row of kind {home.rows[row].head.kind}; expected one of kind run"))
    if home is table and row == raw.name:
        raise UserError(mark.line(f"found the row itself, '{name}'; expected another row"))
    return home, row


def _init_problems(table: TableFile, raw: RawRow) -> list[str]:
    if raw.head.init_from is None:
        return []
    seen: list[str] = []
    home, current, name = table, raw, raw.name
    try:
        while current.head.init_from is not None and f"{home.address}/{name}" not in seen:
            seen.append(f"{home.address}/{name}")
            home, name = _parent(home, current)
            current = home.rows[name]
    except UserError as error:
        return error.lines if len(seen) == 1 else []
    order = [f"{table.address}/{known}" for known in table.rows]
    if current is raw and min(seen, key=lambda place: order.index(place) if place in order else len(order)) == seen[0]:
        mark = table.document.mark(("rows", raw.name, "init_from"))
        return [mark.line(f"found a circle: {' -> '.join(seen)}; expected a row that does not start from this one")]
    return []


def _rungs(table: TableFile) -> list[str]:
    """A rung that no row ever reaches is a mistake."""
    assert table.sweep is not None
    last = max(table.sweep.scheduler.rungs, default=0)
    steps = [raw.spec.data["train"].get("max_steps") for raw in table.rows.values() if raw.head.kind == "run"]
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
    head = {"id": row.id, "label": row.label, "kind": row.kind, "expect": dict(row.expect), "assumed": list(row.assumed)}
    return head | ({"workers": row.workers} if row.workers != 1 else {}) | ({"pinned": True} if row.pinned else {})
