"""Compiles the axes of a grid to values, each with a name and the spec keys that it sets; conditions on axes."""

import hashlib
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from orchestrator.specs.check import SECTIONS
from orchestrator.specs.grid.schema import UNSET, Axis, Condition
from orchestrator.specs.positions import Document, KeyPath, Position, describe, nearest

_WORD = re.compile(r"<([A-Za-z0-9_]*)>")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "at_least": operator.ge,
    "at_most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
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
    """A compiled axis. values: empty for an axis that draws from a range."""

    name: str
    axis: Axis
    targets: list[tuple[tuple[str, ...], Position]]
    values: list[Value]

    @property
    def described(self) -> str:
        """Its values and its condition: `hops: 2, 4 (fusion: mlrf)`."""
        limits = self.axis.loguniform
        values = ", ".join(text(value.plain) for value in self.values) if limits is None else f"{limits.low:g} to {limits.high:g}, drawn"
        return f"{self.name}: {values}" + ("" if self.axis.when is None else f" ({words(self.axis.when)})")

    def draw(self, text_of_place: str) -> Value:
        """Draws the value of a random axis: deterministic in `text_of_place`, independent of the rest of the grid."""
        share = int.from_bytes(hashlib.sha256(f"{self.name}|{text_of_place}".encode()).digest()[:7]) / 2**56
        limits = self.axis.loguniform
        assert limits is not None
        raw = math.exp(math.log(limits.low) + share * (math.log(limits.high) - math.log(limits.low)))
        number = min(max(float(f"{raw:.{limits.digits}g}"), limits.low), limits.high)
        return _value(self.name, self.axis, number, (Setting(path, number, where) for path, where in self.targets))


def compile_axes(document: Document, axes: Mapping[str, Axis]) -> list[CompiledAxis]:
    """Returns the axes in order. Mistakes in keys, values and conditions become problems of the document."""
    made: list[CompiledAxis] = []
    words = [name for name, axis in axes.items() if axis.words is not None]
    for name, axis in axes.items():
        path: KeyPath = ("grid", "axes", name)
        keys = {(*path, "zip", key): key for key in axis.zip or {}} | ({} if axis.key is None else {(*path, "key"): axis.key})
        targets = [(_path(document, at, key), document.at(at)) for at, key in keys.items()]
        found = CompiledAxis(name, axis, targets, list(_values(document, path, name, axis, targets)))
        if axis.when is not None:
            check_condition(document, (*path, "when"), axis.when, made)
        for setting in (*(s for value in found.values for s in value.settings), *(Setting(p, None, m) for p, m in targets)):
            for asked in setting.placeholders:
                if asked not in words:
                    document.problems.append(setting.position.line(f"found <{asked}>; {nearest(asked, words)} (an axis of kind words)"))
        made.append(found)
    return made


def _path(document: Document, at: KeyPath, key: str) -> tuple[str, ...]:
    parts = tuple(key.split("."))
    if parts[0] not in SECTIONS or len(parts) < 2 or not all(parts):
        document.wrong(at, f"found {describe(key)}; {nearest(parts[0], SECTIONS)}, with a key of it behind a dot")
    return parts


def _values(document: Document, path: KeyPath, name: str, axis: Axis, targets: list[tuple[tuple[str, ...], Position]]) -> Iterator[Value]:
    for word, parts in (axis.words or {}).items():
        yield _value(name, axis, word, (), parts)
    for i, row in enumerate(zip(*(axis.zip or {}).values(), strict=True)):
        plain = axis.names[i] if axis.names else row[0] if len(set(map(str, row))) == 1 else "x".join(map(text, row))
        pairs = [(target, item) for target, item in zip(targets, row, strict=True) if item != UNSET]
        yield _value(name, axis, plain, (Setting(parts, item, document.at((*where.path, i))) for (parts, where), item in pairs))
    given = axis.grid or []
    named = given if isinstance(given, dict) else None
    for i, item in enumerate(given):
        at, content = ((*path, "grid", i), item) if named is None else ((*path, "grid", item), named[item])
        if named is None and isinstance(item, (dict, list, type(None))):
            document.wrong(at, f"found {describe(item)}; expected a plain value, or values with names as a mapping NAME: VALUE")
        elif content == UNSET:
            yield _value(name, axis, item)
        elif targets:
            yield _value(name, axis, item, (Setting(parts, content, document.at(at)) for parts, _ in targets))
        elif not isinstance(content, (dict, type(None))):
            document.wrong(at, f"found {describe(content)}; expected a mapping of dotted keys, or a key beside the values")
        else:
            own = [Setting(_path(document, (*at, key), key), part, document.at((*at, key))) for key, part in (content or {}).items()]
            yield _value(name, axis, item, own)
    if len({text(item) for item in given}) != len(given):
        document.wrong((*path, "grid"), "found a value twice; expected each once")


def _value(name: str, axis: Axis, plain: Any, settings: Iterable[Setting] = (), words: Iterable[str] = ()) -> Value:
    """Returns a value. Its part of row names is its text after the axis's `id`, or else its name (`depth24`), which text lacks (`mlrf`)."""
    sets, stands_for = tuple(settings), tuple(words)
    prefix = axis.id if axis.id is not None else "" if isinstance(plain, str) else name
    id = re.sub(r"[^A-Za-z0-9._-]", "_", f"{prefix}{text(plain)}".replace("e+", "e"))
    return Value(name, plain, id if sets or stands_for else "", sets, stands_for)


def holds(condition: Condition, chosen: Mapping[str, Any]) -> bool:
    """Whether a combination (axis -> its plain value) is as the condition wants. A condition on an axis that does not apply is false."""
    return all(axis in chosen and _matches(chosen[axis], wanted) for axis, wanted in condition.items())


def _matches(value: Any, wanted: Any) -> bool:
    """Returns whether an axis's value is as a condition wants: a value, one of a list, or what passes all comparisons of a mapping."""
    if isinstance(wanted, list):
        return value in wanted and any(_matches(value, each) for each in wanted)  # most are not in it
    if not isinstance(wanted, dict):
        return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
    for name, bound in wanted.items():
        if _matches(value, bound) if name == "not" else not (_is_number(value) and _COMPARE[name](value, bound)):
            return False
    return True


def check_condition(document: Document, path: KeyPath, condition: Condition, axes: Iterable[CompiledAxis]) -> None:
    """Mistakes in a condition become problems of the document. axes: those that it may use."""
    known = {axis.name: [value.plain for value in axis.values] for axis in axes}
    if not condition:
        document.wrong(path, "found an empty condition; expected an axis and its values")
    for axis, wanted in condition.items():
        if axis in known:
            _check(document, (*path, axis), wanted, known[axis])
        else:
            document.wrong((*path, axis), f"unknown axis, or one below; {nearest(axis, known)}")


def _check(document: Document, path: KeyPath, wanted: Any, values: list[Any]) -> None:
    """values: of the axis, none if it is drawn."""
    if not isinstance(wanted, dict):
        for i, value in enumerate(wanted if isinstance(wanted, list) else [wanted]):
            if not _matches(value, values):
                at = (*path, i) if isinstance(wanted, list) else path
                document.wrong(at, f"found {describe(value)}; {nearest(str(value), {text(v) for v in values})}")
    elif not wanted:
        document.wrong(path, "found an empty comparison; expected one such as {at_least: 12}")
    else:
        for name, bound in wanted.items():
            if name == "not":
                _check(document, (*path, name), bound, values)
            elif name not in _COMPARE:
                document.wrong((*path, name), f"unknown comparison; {nearest(name, ['not', *_COMPARE])}")
            elif not _is_number(bound) or (values and not any(map(_is_number, values))):
                document.wrong((*path, name), f"found {describe(bound)}; expected a number, and an axis that has numbers")


def words(condition: Condition) -> str:
    """Formats a condition as in the file: `aggregation: mlrf, depth: {above: 24}`."""
    return str(yaml.safe_dump(condition, default_flow_style=True, sort_keys=False, width=1000)).strip()[1:-1]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
