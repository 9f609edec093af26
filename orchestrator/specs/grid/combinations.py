"""The grid of a file: its combinations in order, their names, and the exclusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

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


class Partial(NamedTuple):
    """The values of the first axes. chosen: axis -> plain value. excluded: index of the first exclusion that holds."""

    values: Combination = ()
    chosen: Mapping[str, Any] = {}
    excluded: int | None = None
    sample: int | None = None


@dataclass
class Grid:
    """A compiled `grid` section.

    refused: name of each combination that components refuse -> error line, once `grid.rows` has resolved the rows.
    counts: index of an exclusion -> number of combinations for which it is the first that holds; repeated: number of draws equal to an
    earlier one; both once the combinations are listed.
    """

    document: Document
    section: GridSection
    axes: list[CompiledAxis]
    excluded: list[Excluded]
    refused: dict[str, str] | None = None
    counts: Counter[int] = field(default_factory=Counter)
    repeated: int = 0

    @property
    def position(self) -> Position:
        return self.document.at(("grid",))

    def combinations(self) -> dict[str, Combination]:
        """Returns name -> combination without excluded ones. Raises UserError for equal or overlong names, or too many combinations."""
        return self._names

    @cached_property
    def _names(self) -> dict[str, Combination]:
        names: dict[str, Combination] = {}
        folded: dict[str, str] = {}
        problems: dict[str, None] = {}
        found, _ = self.walk()
        self.counts = Counter(each.excluded for each in found if each.excluded is not None)
        for values in (each.values for each in found if each.excluded is None):
            name = row_name(values)
            earlier = folded.setdefault(name.casefold(), name)
            if earlier not in names:
                names[name] = values
            elif earlier == name and [v.plain for v in names[name]] == [v.plain for v in values]:
                self.repeated += 1
            else:
                both = [", ".join(v.shown for v in one) for one in (names[earlier], values)]
                problems[f"found the name {shown(name)} for [{both[0]}] and [{both[1]}]; expected an axis with id"] = None
        problems |= {
            f"found the row name {shown(name, 200)}; expected at most 129 characters: give id": None for name in names if too_long(name)
        }
        if problems:
            raise UserError(*map(self.position.line, list(problems)[:20]))
        return names

    def walk(self, only: Mapping[str, Callable[[Value], bool]] | None = None) -> tuple[list[Partial], list[CompiledAxis]]:
        """Returns all combinations in order, and for each left out because an axis of `only` does not apply, that axis.

        only: axis -> predicate on its values.
        """
        only, found, inapplicable = only or {}, [Partial()], []
        order = {axis.name: i for i, axis in enumerate(self.axes)}
        for i, axis in enumerate(self.axes):
            decided = [n for n, each in enumerate(self.excluded) if i == max((order[name] for name in each.asked), default=0)]
            made: list[Partial] = []
            for each in found:
                if axis.applies is None or axis.applies(each.chosen):
                    made += self._extended(each, axis, only.get(axis.name))
                elif axis.name in only:
                    inapplicable.append(axis)
                else:
                    made.append(each)
            found = [self._judged(each, decided) for each in made] if decided else made
            if len(found) > MAX_COMBINATIONS:
                raise UserError(self.position.line(f"found more than {MAX_COMBINATIONS:,} combinations; expected fewer"))
        return found, inapplicable

    def _extended(self, partial: Partial, axis: CompiledAxis, wanted: Callable[[Value], bool] | None) -> Iterator[Partial]:
        """Yields the partial combination with each value of the axis; the first random axis starts the samples."""
        values, chosen, excluded, number = partial
        for sample in range(self.section.samples) if axis.random and number is None else [number]:
            options = axis.values
            if axis.random:
                settings = [f"{name}={text(plain)}" for name, plain in chosen.items()]
                options = [axis.draw("|".join((str(self.section.seed), str(sample), *settings)))]
            for value in options:
                if wanted is None or wanted(value):
                    yield Partial((*values, value), {**chosen, axis.name: value.plain}, excluded, sample)

    def _judged(self, partial: Partial, decided: list[int]) -> Partial:
        hit = next((i for i in decided if self.excluded[i].test(partial.chosen)), None)
        return partial if hit is None or (partial.excluded is not None and partial.excluded < hit) else partial._replace(excluded=hit)


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
