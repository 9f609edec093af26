"""A row of a table's file under a profile, overrides and a seed, the rows it starts from included."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import UserError
from orchestrator.specs import check, overrides, profiles, row_references, scorings, templates
from orchestrator.specs.grid import named_rows
from orchestrator.specs.overrides import Override
from orchestrator.specs.parsed_table import ParsedRow, TableFile
from orchestrator.specs.positions import Located
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec, ScoreSpec
from orchestrator.specs.scorings import Figures


class Resolver:
    """Resolves rows under one set of overrides, profile and seed."""

    def __init__(self, sets: list[Override], profile: str | None, seed: int) -> None:
        self.sets, self.seed = sets, seed
        self.profile = None if profile is None else profiles.load(profile)

    def row(self, table: TableFile, name: str, sets: list[Override] | None = None, chain: tuple[str, ...] = ()) -> Row:
        """UserError for a row that the overrides or the profile make invalid, or whose parents go in a circle."""
        sets = self.sets if sets is None else sets
        parsed, row_id = table.rows[name], f"{table.address}/{name}"
        where, _, line = parsed.position.where.rpartition(":")
        spec: RunSpec | None = None
        parent: Row | None = None
        also: dict[str, ScoreSpec] = {}
        if parsed.head.kind == "run":
            address = None
            if parsed.head.init_from is not None:
                if row_id in chain:
                    raise UserError(parsed.position.under("init_from").line(f"found a circle: {' -> '.join((*chain, row_id))}"))
                home, parent_name = row_references.parent(table, parsed)
                address = f"{home.address}/{parent_name}"
                check_written(home) if home is not table else None
                reach = overrides.for_parent(sets, parsed.spec.data, home.rows[parent_name].spec.data)
                parent = self.row(home, parent_name, reach, (*chain, row_id))
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
        )

    def spec(self, row: Located, sets: list[Override], init_from: str | None, *, cross_checks: bool = True) -> RunSpec:
        """File, then profile, then overrides. cross_checks: as in `specs.check.check`."""
        spec, problems = check.check(row, seed=self.seed, init_from=init_from, cross_checks=cross_checks)
        if spec is not None and (self.profile is not None or sets):
            data = spec.model_dump(exclude={"seed", "init_from"})
            scaled = Located(data, row.home, row.positions)
            if self.profile is not None:
                scaled = profiles.apply(scaled, *self.profile)
            scaled, problems = overrides.apply(scaled, sets)
            if not problems:
                spec, problems = check.check(scaled, seed=self.seed, init_from=init_from, cross_checks=cross_checks)
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


def check_written(table: TableFile) -> None:
    """UserError with every problem of what is written in the file, sorted by line: structure, specs, init_from. Not of its grid's rows."""
    problems = list(table.problems)
    for parsed in written(table).values():
        if parsed.head.kind == "run":
            spec, found = check.check(parsed.spec)
            problems += found if spec is None else scorings.resolve(parsed.figures.also, spec)[1]
        problems += row_references.problems_of(table, parsed)
    problems += templates.misspelt(table.templates, {name: parsed.head.use for name, parsed in written(table).items()}, table.shared)
    if table.grid is not None:
        problems += named_rows.problems_of(table)
    if not problems and table.sweep is not None:
        problems += _rungs(table)
    refuse(problems)


def written(table: TableFile) -> dict[str, ParsedRow]:
    """The rows that stand in the file by name, without those of its grid."""
    return table.rows.written if isinstance(table.rows, named_rows.GridRows) else table.rows


def _rungs(table: TableFile) -> list[str]:
    """A rung that no row ever reaches is a mistake."""
    assert table.sweep is not None
    last = max(table.sweep.scheduler.rungs, default=0)
    steps = [parsed.spec.data["train"].get("max_steps") for parsed in written(table).values() if parsed.head.kind == "run"]
    steps += [table.shared.data["train"].get("max_steps")] if table.grid is not None else []
    if last and steps and all(isinstance(s, int) and s < last for s in steps):
        position = table.document.at(("sweep", "scheduler", "rungs"))
        return [position.line(f"found a rung at step {last}; expected at most train.max_steps, {max(steps)}")]
    return []


def refuse(problems: Sequence[str]) -> None:
    """UserError with the problems sorted by file and line, if there are any."""
    if problems:
        raise UserError(*sorted(dict.fromkeys(problems), key=_position))


def _position(line: str) -> tuple[str, int]:
    """Sort key of an error line: file, then line number."""
    file, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return file, int(number) if number.isdigit() else 0
