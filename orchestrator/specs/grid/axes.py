"""Compiles the axes of a grid to values, each with a name and the spec keys that it sets, and the conditions on axes."""

import hashlib
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import yaml

from orchestrator.specs.check import SECTIONS
from orchestrator.specs.grid.schema import UNSET, Axis
from orchestrator.specs.positions import Document, KeyPath, Position, describe, nearest

_WORD = re.compile(r"<([A-Za-z0-9_]*)>")
SIDES = ("encoder", "decoder")
Test = Callable[[Mapping[str, Any]], bool]
"""Of axis -> its plain value (or name) in a combination; axes that do not apply are absent."""

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "at_least": operator.ge,
    "at_most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
    "multiple_of": lambda a, b: bool(a % b == 0),
}


@dataclass(frozen=True)
class Setting:
    """Sets `value` at `path`; parts of the path may be the <words> of another axis."""

    path: tuple[str, ...]
    value: Any
    position: Position

    @cached_property
    def placeholders(self) -> list[str]:
        return list(dict.fromkeys(name for part in self.path for name in _WORD.findall(part)))

    def paths(self, words: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Returns its path for each of the <words>. Raises KeyError if one of them does not apply."""
        paths = [self.path]
        for name in self.placeholders:
            paths = [tuple(part.replace(f"<{name}>", word) for part in path) for path in paths for word in words[name]]
        return paths


@dataclass(eq=False)
class Value:
    """One value of an axis. plain: its name or number; id: its part of a row's name, empty if it sets nothing."""

    axis: str
    plain: Any
    id: str
    settings: tuple[Setting, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.axis} {text(self.plain)}"


@dataclass
class CompiledAxis:
    """A compiled axis. `values` holds all values; it is empty for an axis that draws from a range."""

    name: str
    axis: Axis
    targets: list[tuple[tuple[str, ...], Position]]
    values: list[Value]
    applies: Test | None = None
    drawn: dict[float, Value] = field(default_factory=dict)

    @property
    def plain(self) -> list[Any] | None:
        return None if self.axis.loguniform is not None else [value.plain for value in self.values]

    @property
    def described(self) -> str:
        """Its values and its condition: `hops: 2, 4 (fusion: mlrf)`."""
        drawn, limits = ", drawn" if self.axis.random else "", self.axis.loguniform
        values = ", ".join(text(value.plain) for value in self.values) if limits is None else f"{limits.low:g} to {limits.high:g}"
        return f"{self.name}: {values}{drawn}" + ("" if self.axis.when is None else f" ({words(self.axis.when)})")

    def draw(self, text_of_place: str) -> Value:
        """Draws the value of a random axis: deterministic in `text_of_place`, independent of the rest of the grid."""
        share = int.from_bytes(hashlib.sha256(f"{self.name}|{text_of_place}".encode()).digest()[:7]) / 2**56
        limits = self.axis.loguniform
        assert limits is not None
        raw = math.exp(math.log(limits.low) + share * (math.log(limits.high) - math.log(limits.low)))
        number = min(max(float(f"{raw:.{limits.digits}g}"), limits.low), limits.high)
        if number not in self.drawn:
            self.drawn[number] = _value(self.name, self.axis, number, (Setting(path, number, where) for path, where in self.targets))
        return self.drawn[number]


def compile_axes(document: Document, axes: Mapping[str, Axis]) -> list[CompiledAxis]:
    """Returns the axes in order. Mistakes in keys, values and conditions become problems of the document."""
    made: list[CompiledAxis] = []
    words = [name for name, axis in axes.items() if axis.words is not None]
    for name, axis in axes.items():
        path: KeyPath = ("grid", "axes", name)
        targets = list(_targets(document, path, axis))
        found = CompiledAxis(name, axis, targets, list(_values(document, path, name, axis, targets)))
        if axis.when is not None:
            found.applies = compile_condition(document, (*path, "when"), axis.when, {other.name: other.plain for other in made})
        for setting in (*(s for value in found.values for s in value.settings), *(Setting(p, None, m) for p, m in targets)):
            for asked in setting.placeholders:
                if asked not in words:
                    document.problems.append(setting.position.line(f"found <{asked}>; {nearest(asked, words)} (an axis of kind words)"))
        made.append(found)
    return made


def _targets(document: Document, path: KeyPath, axis: Axis) -> Iterator[tuple[tuple[str, ...], Position]]:
    places: list[tuple[KeyPath, str]] = [((*path, "zip", key), key) for key in axis.zip or {}]
    places += [((*path, "key"), axis.key)] if axis.key is not None else []
    for at, key in places:
        parts = tuple(key.split("."))
        if parts[0] not in SECTIONS or len(parts) < 2 or not all(parts):
            document.wrong(at, f"found {describe(key)}; {nearest(parts[0], SECTIONS)}, with a key of it behind a dot")
        else:
            yield parts, document.at(at)


def _values(document: Document, path: KeyPath, name: str, axis: Axis, targets: list[tuple[tuple[str, ...], Position]]) -> Iterator[Value]:
    if axis.words is not None:
        yield from (_value(name, axis, word, (), parts) for word, parts in axis.words.items())
    if axis.zip is not None:
        for i, row in enumerate(zip(*axis.zip.values(), strict=True)):
            plain = axis.names[i] if axis.names else row[0] if len(set(map(str, row))) == 1 else "x".join(map(text, row))
            pairs = [(target, item) for target, item in zip(targets, row, strict=False) if item != UNSET]
            yield _value(name, axis, plain, (Setting(parts, item, document.at((*where.path, i))) for (parts, where), item in pairs))
    given = axis.grid or []
    for i, item in enumerate(given):
        at = (*path, "grid", item if isinstance(given, dict) else i)
        content = given[item] if isinstance(given, dict) else item
        if not isinstance(given, dict) and isinstance(item, (dict, list, type(None))):
            document.wrong(at, f"found {describe(item)}; expected a plain value, or values with names as a mapping NAME: VALUE")
        elif content == UNSET:
            yield _value(name, axis, item)
        elif targets:
            yield _value(name, axis, item, (Setting(parts, content, document.at(at)) for parts, _ in targets))
        else:
            yield _value(name, axis, item, _sections(document, at, content))
    if len({text(item) for item in given}) != len(given):
        document.wrong((*path, "grid"), "found a value twice; expected each once")


def _sections(document: Document, path: KeyPath, value: Any) -> Iterator[Setting]:
    """Yields the settings of a mapping of dotted keys or spec sections, down to the components."""
    if not isinstance(value, (dict, type(None))):
        document.wrong(path, f"found {describe(value)}; expected sections of the spec, or a key beside the values")
        return
    for section, keys in (value or {}).items():
        at = (*path, section)
        parts = tuple(section.split("."))
        if len(parts) > 1 and all(parts) and parts[0] in SECTIONS:
            yield Setting(parts, keys, document.at(at))
        elif section not in SECTIONS:
            document.wrong(at, f"unknown section; {nearest(section, SECTIONS)}")
        elif not isinstance(keys, dict):
            document.wrong(at, f"found {describe(keys)}; expected a mapping")
        else:
            for key, item in keys.items():
                inner = item if section == "model" and key in SIDES and isinstance(item, dict) else None
                for rest, part in [((), item)] if inner is None else [((name,), inner[name]) for name in inner]:
                    yield Setting((section, key, *rest), part, document.at((*at, key, *rest)))


def _value(name: str, axis: Axis, plain: Any, settings: Iterable[Setting] = (), words: Iterable[str] = ()) -> Value:
    """Returns a value. Its part of row names is its text after the axis's `id`, or else its name (`depth24`), which text lacks (`mlrf`)."""
    sets, stands_for = tuple(settings), tuple(words)
    prefix = axis.id if axis.id is not None else "" if isinstance(plain, str) else name
    id = re.sub(r"[^A-Za-z0-9._-]", "_", f"{prefix}{text(plain)}".replace("e+", "e"))
    return Value(name, plain, id if sets or stands_for else "", sets, stands_for)


def compile_condition(document: Document, path: KeyPath, given: Any, known: Mapping[str, list[Any] | None]) -> Test:
    """Returns the test; mistakes become problems of the document.

    A condition on an axis that does not apply is false, including `not`. known: the axes that the condition may use -> their values (None:
    numbers from a range).
    """
    branches = given if isinstance(given, list) else [given]
    for i, condition in enumerate(branches):
        here = (*path, i) if isinstance(given, list) else path
        if not condition:
            document.wrong(here, "found an empty condition; expected an axis and its values")
        for axis, wanted in condition.items():
            if axis in known:
                _check(document, (*here, axis), axis, wanted, known[axis])
            else:
                document.wrong((*here, axis), f"unknown axis, or one below; {nearest(axis, known)}")

    def holds(chosen: Mapping[str, Any]) -> bool:
        for condition in branches:  # loops take a third of the time of any and all
            for axis, wanted in condition.items():
                if axis not in chosen or not _matches(chosen[axis], wanted):
                    break
            else:
                return True
        return False

    return holds


def _matches(value: Any, wanted: Any) -> bool:
    """Returns whether an axis's value is as a condition wants: a value, one of a list, or what passes all comparisons of a mapping."""
    if isinstance(wanted, list):
        return any(_matches(value, each) for each in wanted)
    if not isinstance(wanted, dict):
        return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
    for name, bound in wanted.items():
        if _matches(value, bound) if name == "not" else not (_is_number(value) and _COMPARE[name](value, bound)):
            return False
    return True


def _check(document: Document, path: KeyPath, axis: str, wanted: Any, values: list[Any] | None) -> None:
    """Mistakes in what a condition wants of an axis become problems of the document."""
    if isinstance(wanted, dict):
        if not wanted:
            document.wrong(path, "found an empty comparison; expected one such as {at_least: 12}")
        for name, bound in wanted.items():
            if name == "not":
                _check(document, (*path, name), axis, bound, values)
            elif name not in _COMPARE:
                document.wrong((*path, name), f"unknown comparison; {nearest(name, ['not', *_COMPARE])}")
            elif not _is_number(bound) or (name == "multiple_of" and bound == 0):
                document.wrong((*path, name), f"found {describe(bound)}; expected a number{' other than 0' if bound == 0 else ''}")
            elif values is not None and not any(map(_is_number, values)):
                numbers = nearest("", [text(v) for v in values])
                document.wrong((*path, name), f"found a comparison; {axis} has no numbers: {numbers}")
    elif values is None:
        document.wrong(path, f"found {_flow(wanted)}; expected a comparison, as in {{at_most: 0.1}}: {axis} is drawn")
    else:
        for i, value in enumerate(wanted if isinstance(wanted, list) else [wanted]):
            if isinstance(value, (dict, list)) or not _matches(value, values):
                at = (*path, i) if isinstance(wanted, list) else path
                document.wrong(at, f"found {describe(value)}; {nearest(str(value), [text(v) for v in values])}")


def words(given: Any) -> str:
    """Formats a condition as in the file: `aggregation: mlrf, depth: {above: 24}`."""
    return " or ".join(map(words, given)) if isinstance(given, list) else _flow(given)[1:-1]


def _flow(value: Any) -> str:
    """Formats plain data as YAML on one line."""
    return str(yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000)).removesuffix("\n...\n").removesuffix("\n")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
