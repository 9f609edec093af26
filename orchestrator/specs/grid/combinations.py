"""The grid of a file: its combinations in order, their names, and the exclusions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from orchestrator.errors import UserError
from orchestrator.specs.components import by_kind, placed
from orchestrator.specs.grid.axes import CompiledAxis, Value, check_condition, compile_axes, holds, text, words
from orchestrator.specs.grid.schema import GridSection
from orchestrator.specs.messages import validated
from orchestrator.specs.positions import Document, KeyPath, Located, Position, dotted, shown
from orchestrator.specs.table import SEGMENT

MAX_COMBINATIONS = 1_000_000
SEGMENT_LENGTH = 64


class Combination(NamedTuple):
    """One value for each axis that applies, in order. chosen: axis -> plain value. excluded: index of the first exclusion that holds."""

    values: tuple[Value, ...] = ()
    chosen: Mapping[str, Any] = {}
    sample: int | None = None
    excluded: int | None = None


@dataclass
class Grid:
    """A compiled `grid` section."""

    document: Document
    section: GridSection
    axes: list[CompiledAxis]

    @property
    def position(self) -> Position:
        return self.document.at(("grid",))

    @cached_property
    def exclusions(self) -> list[str]:
        """The place, text and reason of each exclusion."""
        texts = [f"{{when: {{{words(each.when)}}}}}: {each.reason}" for each in self.section.exclude]
        return [self.document.at(("grid", "exclude", i)).line(text) for i, text in enumerate(texts)]

    @cached_property
    def found(self) -> list[Combination]:
        """All combinations in order, excluded ones too. Raises UserError for too many."""
        found = [Combination()]
        for axis in self.axes:
            found = [longer for each in found for longer in self._extended(each, axis)]
            if len(found) > MAX_COMBINATIONS:
                raise UserError(self.position.line(f"found more than {MAX_COMBINATIONS:,} combinations; expected fewer"))
        for n, each in enumerate(found):
            holding = (i for i, exclusion in enumerate(self.section.exclude) if holds(exclusion.when, each.chosen))
            if (first := next(holding, None)) is not None:
                found[n] = each._replace(excluded=first)
        return found

    @property
    def repeated(self) -> int:
        """Number of draws equal to an earlier one."""
        return sum(each.excluded is None for each in self.found) - len(self.combinations)

    @cached_property
    def combinations(self) -> dict[str, tuple[Value, ...]]:
        """Name -> values of each combination that is not excluded. Raises UserError for equal or overlong names."""
        names: dict[str, tuple[Value, ...]] = {}
        folded: dict[str, str] = {}
        problems: dict[str, None] = {}
        for values in (each.values for each in self.found if each.excluded is None):
            name = row_name(values)
            earlier = names.setdefault(folded.setdefault(name.casefold(), name), values)
            if earlier is not values and [v.plain for v in earlier] != [v.plain for v in values]:
                both = [", ".join(v.shown for v in one) for one in (earlier, values)]
                problems[f"found the name {shown(name)} for [{both[0]}] and [{both[1]}]; expected an axis with id"] = None
            if not all(SEGMENT.fullmatch(part) for part in name.split("/")):
                problems[f"found the row name {shown(name, 200)}; expected at most 129 characters: give id"] = None
        if problems:
            raise UserError(*map(self.position.line, list(problems)[:20]))
        return names

    def _extended(self, each: Combination, axis: CompiledAxis) -> Iterator[Combination]:
        """Yields a combination of the axes above with each value of this one, if it applies. The first random axis starts the samples."""
        values, chosen, number, _ = each
        random, when = axis.axis.random, axis.axis.when
        if when is not None and not holds(when, chosen):
            yield each
            return
        for sample in range(self.section.samples) if random and number is None else [number]:
            options = axis.values
            if random:
                settings = [f"{name}={text(plain)}" for name, plain in chosen.items()]
                options = [axis.draw("|".join((str(self.section.seed), str(sample), *settings)))]
            for value in options:
                yield Combination((*values, value), {**chosen, axis.name: value.plain}, sample)


def read_grid(document: Document) -> Grid | None:
    """Returns the grid of a file, or None if there are mistakes, which become problems of the document."""
    before = len(document.problems)
    section = validated(document, ("grid",), GridSection)
    if section is None:
        return None
    axes = compile_axes(document, section.axes)
    for i, exclusion in enumerate(section.exclude):
        check_condition(document, ("grid", "exclude", i, "when"), exclusion.when, axes)
    return Grid(document, section, axes) if len(document.problems) == before else None


def apply(values: tuple[Value, ...], base: Located) -> Located:
    """Merges what the values set onto `base`, like the keys of a row.

    Raises UserError if two of them set one key, or if <words> refer to an axis that does not apply.
    """
    words = {value.axis: value.words for value in values if value.words}
    over: dict[str, Any] = {}
    done: dict[KeyPath, Position] = {}
    lists: set[KeyPath] = set()
    for setting in (setting for value in values for setting in value.settings):
        position = setting.position
        if missing := [name for name in setting.placeholders if name not in words]:
            other = ", ".join(v.shown for v in values)
            raise UserError(position.line(f"<{missing[0]}> stands for nothing where [{other}]; expected a narrower `when`"))
        for path in setting.paths(words):
            below = (other for other in done if other[: len(path)] == path)
            above = (other for other in lists if path[: len(other)] == other)  # an option would take the place of the list
            if clash := next(chain(below, above), None):
                also = f"{done[clash].where} ({dotted(done[clash].path)})"
                raise UserError(position.line(f"sets {dotted(path)}, which {also} sets too; expected one"))
            done[path] = position
            lists |= {path} if isinstance(setting.value, list) else set()
            over = placed(over, path, setting.value)
    return base.merged(by_kind(Located(over, base.home, done), base.data))


def row_name(values: tuple[Value, ...]) -> str:
    """Joins the ids of the values, as in `mlrf-both-hops4-depth12`; `default` if there are none. Long names are split in two segments."""
    name = "-".join(value.id for value in values if value.id) or "default"
    name = name if name[0].isalnum() else f"x{name}"
    if len(name) <= SEGMENT_LENGTH:
        return name
    cut = name.rfind("-", 0, SEGMENT_LENGTH + 1)
    cut = cut if cut > 0 else SEGMENT_LENGTH
    return f"{name[:cut]}/{name[cut:].lstrip('._-')}"
