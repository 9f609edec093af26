"""The grid of a file: its combinations in order, their names, and the exclusions."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from orchestrator.errors import UserError
from orchestrator.specs.grid.axes import CompiledAxis, Test, Value, compile_axes, compile_condition, text, words
from orchestrator.specs.grid.schema import GridSection
from orchestrator.specs.messages import validated
from orchestrator.specs.positions import Document, KeyPath, Located, Position, dotted, shown
from orchestrator.specs.table import SEGMENT

MAX_COMBINATIONS = 1_000_000
SEGMENT_LENGTH = 64
REGULARIZERS = ("model", "regularizers")

Combination = tuple[Value, ...]
"""One value per axis that applies, in axis order."""


class Excluded(NamedTuple):
    """A condition that excludes combinations. line: its place, text and reason."""

    line: str
    test: Test


class Partial(NamedTuple):
    """The values of the first axes. chosen: axis -> plain value. excluded: index of the first exclusion that holds."""

    values: Combination = ()
    chosen: Mapping[str, Any] = {}
    sample: int | None = None
    excluded: int | None = None


@dataclass
class Grid:
    """A compiled `grid` section.

    refused: name of each combination that components refuse -> error line, once `specs.rows` has resolved the rows.
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

    @cached_property
    def combinations(self) -> dict[str, Combination]:
        """Name -> combination without excluded ones. Raises UserError for equal or overlong names, or too many combinations."""
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
        for name in names:
            if not all(SEGMENT.fullmatch(part) for part in name.split("/")):
                problems[f"found the row name {shown(name, 200)}; expected at most 129 characters: give id"] = None
        if problems:
            raise UserError(*map(self.position.line, list(problems)[:20]))
        return names

    def walk(self, only: Mapping[str, Callable[[Value], bool]] | None = None) -> tuple[list[Partial], list[CompiledAxis]]:
        """Returns all combinations in order, and for each left out because an axis of `only` does not apply, that axis.

        only: axis -> predicate on its values.
        """
        only, found, inapplicable = only or {}, [Partial()], []
        for axis in self.axes:
            made: list[Partial] = []
            for each in found:
                if axis.applies is None or axis.applies(each.chosen):
                    made += self._extended(each, axis, only.get(axis.name))
                elif axis.name in only:
                    inapplicable.append(axis)
                else:
                    made.append(each)
            found = made
            if len(found) > MAX_COMBINATIONS:
                raise UserError(self.position.line(f"found more than {MAX_COMBINATIONS:,} combinations; expected fewer"))
        for n, each in enumerate(found):
            for i, exclusion in enumerate(self.excluded):
                if exclusion.test(each.chosen):
                    found[n] = each._replace(excluded=i)
                    break
        return found, inapplicable

    def _extended(self, partial: Partial, axis: CompiledAxis, wanted: Callable[[Value], bool] | None) -> Iterator[Partial]:
        """Yields the partial combination with each value of the axis; the first random axis starts the samples."""
        values, chosen, number, _ = partial
        random = axis.axis.random
        for sample in range(self.section.samples) if random and number is None else [number]:
            options = axis.values
            if random:
                settings = [f"{name}={text(plain)}" for name, plain in chosen.items()]
                options = [axis.draw("|".join((str(self.section.seed), str(sample), *settings)))]
            for value in options:
                if wanted is None or wanted(value):
                    yield Partial((*values, value), {**chosen, axis.name: value.plain}, sample)


def read_grid(document: Document) -> Grid | None:
    """Returns the grid of a file, or None if there are mistakes, which become problems of the document."""
    before = len(document.problems)
    section = validated(document, ("grid",), GridSection)
    if section is None:
        return None
    axes = compile_axes(document, section.axes)
    known = {axis.name: axis.plain for axis in axes}
    excluded = []
    for i, exclusion in enumerate(section.exclude):
        path = ("grid", "exclude", i)
        test = compile_condition(document, (*path, "when"), exclusion.when, known)
        line = document.at(path).line(f"{{when: {{{words(exclusion.when)}}}}}: {exclusion.reason}")
        excluded.append(Excluded(line, test))
    return Grid(document, section, axes, excluded) if len(document.problems) == before else None


def apply(values: Combination, base: Located) -> Located:
    """Merges what the values set onto `base`, like the keys of a row.

    Raises UserError if two of them set one key, or if <words> refer to an axis that does not apply.
    """
    words = {value.axis: value.words for value in values if value.words}
    over: dict[str, Any] = {}
    done: dict[tuple[str, ...], Position] = {}
    listed: list[tuple[tuple[str, ...], Any, Position]] = []
    for setting in (setting for value in values for setting in value.settings):
        position = setting.position
        if missing := [name for name in setting.placeholders if name not in words]:
            other = ", ".join(v.shown for v in values)
            raise UserError(position.line(f"<{missing[0]}> stands for nothing where [{other}]; expected a narrower `when`"))
        for path in setting.paths(words):
            if clash := next((other for other in done if other[: len(path)] == path), None):
                also = f"{done[clash].where} ({dotted(done[clash].path)})"
                raise UserError(position.line(f"sets {dotted(path)}, which {also} sets too; expected one"))
            done[path] = position
            if path[:2] == REGULARIZERS and len(path) > 2:
                listed.append((path[2:], setting.value, position))
            else:
                over = placed(over, path, setting.value)
    positions: dict[KeyPath, Position] = {path: where for path, where in done.items() if path[:2] != REGULARIZERS or len(path) == 2}
    merged = base.merged(Located(over, base.home, positions))
    return _with_regularizers(merged, listed) if listed else merged


def _with_regularizers(row: Located, sets: list[tuple[tuple[str, ...], Any, Position]]) -> Located:
    """Applies `regularizers.KIND.OPTION` to the list item of that kind, which is appended if absent."""
    items: list[Any] = list(row.data["model"].get("regularizers") or [])
    positions: dict[KeyPath, Position] = {}
    for (kind, *rest), value, position in sets:
        place = next((i for i, item in enumerate(items) if isinstance(item, dict) and item.get("kind") == kind), len(items))
        if place == len(items):
            items.append({"kind": kind})
            positions[(*REGULARIZERS, place)] = position
        items[place] = placed(items[place], tuple(rest), value) if rest else items[place] | (value or {})
        if rest:
            positions[(*REGULARIZERS, place, *rest)] = position
    return row.merged(Located({"model": {"regularizers": items}}, row.home, positions))


def placed(tree: Any, path: KeyPath, value: Any) -> dict[str, Any]:
    first, rest = path[0], path[1:]
    below = tree if isinstance(tree, dict) else {}
    return {**below, first: placed(below.get(first), rest, value) if rest else value}


def row_name(values: Combination) -> str:
    """Joins the ids of the values, as in `mlrf-both-hops4-depth12`; `default` if there are none. Long names are split in two segments."""
    name = "-".join(value.id for value in values if value.id) or "default"
    name = name if name[0].isalnum() else f"x{name}"
    if len(name) <= SEGMENT_LENGTH:
        return name
    cut = name.rfind("-", 0, SEGMENT_LENGTH + 1)
    cut = cut if cut > 0 else SEGMENT_LENGTH
    return f"{name[:cut]}/{name[cut:].lstrip('._-')}"
