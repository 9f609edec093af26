"""The grid of a file: its combinations in order, their names, and the exclusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from orchestrator.errors import UserError
from orchestrator.specs.grid.axes import CompiledAxis, Value, compile_axes
from orchestrator.specs.grid.conditions import Test, compile_condition, text, words
from orchestrator.specs.grid.schema import GridSection
from orchestrator.specs.messages import problems_of
from orchestrator.specs.positions import Document, Position, shown
from orchestrator.specs.table import SEGMENT

MAX_COMBINATIONS = 1_000_000
SEGMENT_LENGTH = 64

Combination = tuple[Value, ...]
"""One value per axis that applies, in axis order."""


@dataclass(frozen=True)
class Excluded:
    """A condition that excludes combinations. `condition` is its text, `reason` the reason given in the file."""

    position: Position
    condition: str
    reason: str
    test: Test
    asked: frozenset[str]

    @property
    def line(self) -> str:
        return self.position.line(f"{{when: {{{self.condition}}}}}: {self.reason}")


@dataclass
class Grid:
    """A compiled `grid` section. Combinations are listed on first use."""

    document: Document
    section: GridSection
    axes: list[CompiledAxis]
    excluded: list[Excluded]
    _names: dict[str, Combination] | None = None
    counts: Counter[int] = field(default_factory=Counter)
    """Index of an exclusion -> number of combinations excluded by it; only the first matching exclusion counts."""
    refused: dict[str, str] | None = None
    """Name of each combination that components refuse -> error line, once `grid.rows` has resolved the rows."""
    repeated: int = 0
    """Number of draws equal to an earlier one."""

    @property
    def position(self) -> Position:
        return self.document.at(("grid",))

    def combinations(self) -> dict[str, Combination]:
        """Returns name -> combination without excluded ones. Raises UserError for equal or overlong names, or too many combinations."""
        if self._names is None:
            self._names = self._listed()
        return self._names

    def _listed(self) -> dict[str, Combination]:
        names: dict[str, Combination] = {}
        folded: dict[str, str] = {}
        problems: list[str] = []

        def take(values: Combination, excluded: int | None) -> None:
            if excluded is not None:
                self.counts[excluded] += 1
                return
            name = row_name(values)
            earlier = folded.setdefault(name.casefold(), name)
            if name in names and [v.plain for v in names[name]] == [v.plain for v in values]:
                self.repeated += 1
            elif name in names or earlier != name:
                both = [", ".join(v.shown for v in one) for one in (names[earlier], values)]
                problems.append(
                    self.position.line(f"found the name {shown(name)} for [{both[0]}] and [{both[1]}]; expected an axis with id")
                )
            else:
                names[name] = values

        self.counts.clear()
        self.repeated = 0
        self.walk(take)
        long = [name for name in names if too_long(name)]
        problems += [
            self.position.line(f"found the row name {shown(name, 200)}; expected at most 129 characters: give id") for name in long
        ]
        if problems:
            raise UserError(*list(dict.fromkeys(problems))[:20])
        return names

    def walk(
        self,
        take: Callable[[Combination, int | None], None],
        only: Mapping[str, Callable[[Value], bool]] | None = None,
        inapplicable: Callable[[CompiledAxis], None] | None = None,
    ) -> None:
        """Calls `take(values, index of the exclusion or None)` for every combination.

        only: axis -> predicate on its values. Where such an axis does not apply, `inapplicable(axis)` is called instead of `take`.
        """
        only = only or {}
        chosen: dict[str, Any] = {}
        values: list[Value] = []
        last = self._last_asked()
        number = 0

        def down(depth: int, excluded: int | None, sample: int | None) -> None:
            nonlocal number
            if depth == len(self.axes):
                number += 1
                if number > MAX_COMBINATIONS:
                    raise UserError(self.position.line(f"found more than {MAX_COMBINATIONS:,} combinations; expected fewer"))
                take(tuple(values), excluded)
                return
            axis = self.axes[depth]
            if axis.applies is not None and not axis.applies(chosen):
                if axis.name in only:
                    if inapplicable is not None:
                        inapplicable(axis)
                    return
                down(depth + 1, self._excluded(last[depth], chosen, excluded), sample)
                return
            if axis.random and sample is None:  # the first random axis on this path: draw each sample from here
                for each in range(self.section.samples):
                    down(depth, excluded, each)
                return
            if axis.random:
                place = "|".join((str(self.section.seed), str(sample), *(f"{name}={text(plain)}" for name, plain in chosen.items())))
                options = [axis.draw(place)]
            else:
                options = axis.values
            wanted = only.get(axis.name)
            for value in options:
                if wanted is not None and not wanted(value):
                    continue
                chosen[axis.name] = value.plain
                values.append(value)
                down(depth + 1, self._excluded(last[depth], chosen, excluded), sample)
                values.pop()
                del chosen[axis.name]

        down(0, None, None)

    def _last_asked(self) -> list[list[int]]:
        """Returns for each axis the exclusions that can be decided once it has a value."""
        order = {axis.name: i for i, axis in enumerate(self.axes)}
        found: list[list[int]] = [[] for _ in self.axes]
        for i, exclusion in enumerate(self.excluded):
            found[max((order[name] for name in exclusion.asked), default=0)].append(i)
        return found

    def _excluded(self, decided: list[int], chosen: Mapping[str, Any], before: int | None) -> int | None:
        hit = next((i for i in decided if self.excluded[i].test(chosen)), None)
        return hit if before is None else before if hit is None else min(before, hit)


def read_grid(document: Document, problems: list[str]) -> Grid | None:
    """Returns the grid of a file, or None with one line per mistake appended to `problems`."""
    try:
        section = GridSection.model_validate(document.data["grid"])
    except ValidationError as error:
        for problem in problems_of(error, GridSection, ("grid",)):
            problems.append(document.at(problem.path).line(problem.message))
        return None
    found: list[str] = []
    axes = compile_axes(document, section.axes, found)
    known = {axis.name: axis.plain for axis in axes}
    excluded = []
    for i, exclusion in enumerate(section.exclude):
        path = ("grid", "exclude", i)
        test, asked = compile_condition(document, (*path, "when"), exclusion.when, known, found)
        excluded.append(Excluded(document.at(path), words(exclusion.when), exclusion.reason, test, asked))
    problems += found
    return None if found else Grid(document, section, axes, excluded)


def row_name(values: Combination) -> str:
    """Joins the ids of the values, as in `mlrf-both-hops4-depth12`; `default` if there are none. Long names are split in two segments."""
    ids = [value.id for value in values if value.id]
    text_ = "-".join(ids) or "default"
    text_ = text_ if text_[0].isalnum() else f"x{text_}"
    if len(text_) <= SEGMENT_LENGTH:
        return text_
    cut = text_.rfind("-", 0, SEGMENT_LENGTH + 1)
    cut = cut if cut > 0 else SEGMENT_LENGTH
    rest = text_[cut:].lstrip("._-")
    return f"{text_[:cut]}/{rest}"


def too_long(name: str) -> bool:
    """Returns whether a name is too long for its segments."""
    return not all(SEGMENT.fullmatch(part) for part in name.split("/"))
