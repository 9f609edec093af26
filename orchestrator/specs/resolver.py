"""Resolves a row of a table under a profile, overrides and a seed, together with the rows it starts from."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import UserError
from orchestrator.specs import check, overrides, profiles, row_references, scorings, templates
from orchestrator.specs.grid.combinations import Grid
from orchestrator.specs.overrides import Override
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.positions import Located
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec, ScoreSpec
from orchestrator.specs.scorings import Figures
from orchestrator.specs.table import SCORED


class UnfitError(UserError):
    """Components refuse the row's other settings, which themselves are valid."""


class Resolver:
    """Resolves rows under given overrides, profile and seed."""

    def __init__(self, sets: list[Override], profile: str | None, seed: int) -> None:
        self.sets, self.seed = sets, seed
        self.profile = None if profile is None else profiles.load(profile)
        self._parents: dict[tuple[str, ...], Row] = {}

    def row(self, table: TableFile, name: str, sets: list[Override] | None = None, chain: tuple[str, ...] = ()) -> Row:
        """Returns a resolved row. Raises UserError if overrides or profile make it invalid, or if its parents form a cycle."""
        sets = self.sets if sets is None else sets
        parsed, row_id = table.rows[name], f"{table.address}/{name}"
        where, _, line = parsed.position.where.rpartition(":")
        spec: RunSpec | None = None
        parent: Row | None = None
        also: dict[str, ScoreSpec] = {}
        if parsed.head.kind in SCORED:
            address = None
            if parsed.head.init_from is not None:
                if row_id in chain:
                    raise UserError(parsed.position.under("init_from").line(f"found a circle: {' -> '.join((*chain, row_id))}"))
                home, parent_name = row_references.parent(table, parsed)
                address = f"{home.address}/{parent_name}"
                reach = overrides.for_parent(sets, parsed.spec.data, home.rows[parent_name].spec.data)
                wanted = (str(home.path), parent_name, *(override.text for override in reach))
                if wanted not in self._parents:
                    check_written(home) if home is not table else None
                    self._parents[wanted] = self.row(home, parent_name, reach, (*chain, row_id))
                parent = self._parents[wanted]
            spec = self.spec(parsed.spec, sets, address)
            also = self.also(parsed.figures, spec)
        assumed = list(dict.fromkeys([*table.assumed, *parsed.head.assumed])) if spec is not None else parsed.head.assumed
        head = parsed.head
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
            means=dict(parsed.figures.means.data),
            of=row_references.subjects(table, parsed),
            analysis=parsed.figures.analysis,
            note=head.note,
            significance=parsed.figures.significance,
            failed_below=self.bound(parsed.figures.failed_below),
            controls=parsed.figures.controls,
            compare_with=row_references.compared_with(table, parsed),
        )

    def spec(self, row: Located, sets: list[Override], init_from: str | None) -> RunSpec:
        """Returns the spec of a row after profile and overrides, in this order. Raises UnfitError if components refuse it."""
        spec, problems, unfit = check.check(row, seed=self.seed, init_from=init_from)
        if spec is not None and (self.profile is not None or sets):
            data = spec.model_dump(exclude={"seed", "init_from"})
            scaled = Located(data, row.home, row.positions)
            if self.profile is not None:
                scaled = profiles.apply(scaled, *self.profile)
            scaled, problems = overrides.apply(scaled, sets)
            if not problems:
                spec, problems, unfit = check.check(scaled, seed=self.seed, init_from=init_from)
        if spec is None or problems:
            raise (UnfitError if unfit else UserError)(*problems)
        return spec

    def bound(self, stated: float | None) -> float | None:
        """Returns the BLEU below which the row counts as failed: the profile's bound, else its own; None for rows that state none."""
        of_profile = None if self.profile is None else self.profile[0].failed_below
        return stated if stated is None or of_profile is None else of_profile

    def also(self, figures: Figures, spec: RunSpec) -> dict[str, ScoreSpec]:
        """Returns the row's other scorings under its resolved spec."""
        test = None if self.profile is None else self.profile[0].score.get("test")
        found, problems = scorings.resolve(figures.also, spec, test)
        if problems:
            raise UserError(*problems)
        return found


def check_written(table: TableFile) -> None:
    """Raises UserError with every problem of the file, sorted by line: structure, specs, references. The rows of a grid are not checked."""
    problems = list(table.problems)
    for parsed in table.written.values():
        if parsed.head.kind in SCORED:
            spec, found, _ = check.check(parsed.spec)
            problems += found if spec is None else scorings.resolve(parsed.figures.also, spec)[1]
        problems += row_references.problems_of(table, parsed)
    problems += templates.misspelt(table.templates, {name: parsed.head.use for name, parsed in table.written.items()}, table.shared)
    if table.grid is not None:
        problems += _grid_problems(table, table.grid)
    if not problems and table.sweep is not None:
        problems += _rungs(table)
    refuse(problems)


def _grid_problems(table: TableFile, grid: Grid) -> list[str]:
    """Returns problems with the names of combinations."""
    try:
        names = grid.combinations()
    except UserError as error:
        return error.lines
    problems = []
    if taken := [name for name in table.written if name in names]:
        problems.append(grid.position.line(f"found combinations with the names of rows: {', '.join(taken[:8])}; expected other names"))
    if grid.section.init_from is not None and grid.section.init_from in names:
        position = table.document.at(("grid", "init_from"))
        problems.append(position.line("found a combination of the grid itself; expected a row under rows, or one of another table"))
    return problems


def _rungs(table: TableFile) -> list[str]:
    """Returns a line if the last rung is beyond the steps of every row."""
    assert table.sweep is not None
    last = max(table.sweep.scheduler.rungs, default=0)
    steps = [parsed.spec.data["train"].get("max_steps") for parsed in table.written.values() if parsed.head.kind == "run"]
    steps += [table.shared.data["train"].get("max_steps")] if table.grid is not None else []
    if last and steps and all(isinstance(s, int) and s < last for s in steps):
        position = table.document.at(("sweep", "scheduler", "rungs"))
        return [position.line(f"found a rung at step {last}; expected at most train.max_steps, {max(steps)}")]
    return []


def refuse(problems: Sequence[str]) -> None:
    """Raises UserError with the problems sorted by file and line, if there are any."""
    if problems:
        raise UserError(*sorted(dict.fromkeys(problems), key=_position))


def _position(line: str) -> tuple[str, int]:
    """Returns the sort key of an error line: file, then line number."""
    file, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return file, int(number) if number.isdigit() else 0
