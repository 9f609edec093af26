"""Compiles the axes of a grid to values, each with a name and the spec keys that it sets."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from orchestrator.specs.check import SECTIONS
from orchestrator.specs.grid.conditions import Test, compile_condition, text, words
from orchestrator.specs.grid.schema import UNSET, Axis, Range
from orchestrator.specs.positions import Document, KeyPath, Position, describe, nearest

_WORD = re.compile(r"<([A-Za-z0-9_]*)>")
SIDES = ("encoder", "decoder")


@dataclass(frozen=True)
class Setting:
    """Sets `value` at `path`; parts of the path may be the <words> of another axis."""

    path: tuple[str, ...]
    value: Any
    position: Position

    @property
    def placeholders(self) -> list[str]:
        return list(dict.fromkeys(name for part in self.path for name in _WORD.findall(part)))


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

    @cached_property
    def placeholders(self) -> list[str]:
        """The axes of kind words that its keys refer to."""
        return list(dict.fromkeys(name for setting in self.settings for name in setting.placeholders))


@dataclass
class CompiledAxis:
    """A compiled axis. `values` holds all values; it is empty for an axis that draws from a range."""

    name: str
    axis: Axis
    values: list[Value]
    path: KeyPath
    applies: Test | None = None
    asked: frozenset[str] = frozenset()
    targets: list[tuple[tuple[str, ...], Position]] = field(default_factory=list)
    drawn: dict[float, Value] = field(default_factory=dict)

    @cached_property
    def random(self) -> bool:
        return self.axis.random

    @property
    def plain(self) -> list[Any] | None:
        return None if self.range is not None else [value.plain for value in self.values]

    @cached_property
    def range(self) -> Range | None:
        return self.axis.uniform or self.axis.loguniform

    @property
    def described(self) -> str:
        """Its values and its condition: `hops: 2, 4 (fusion: mlrf)`."""
        drawn = ", drawn" if self.axis.random else ""
        limits = self.range
        values = ", ".join(text(value.plain) for value in self.values) if limits is None else f"{limits.low:g} to {limits.high:g}"
        return f"{self.name}: {values}{drawn}" + ("" if self.axis.when is None else f" ({words(self.axis.when)})")

    def draw(self, text_of_place: str) -> Value:
        """Draws the value of a random axis: deterministic in `text_of_place`, independent of the rest of the grid."""
        share = int.from_bytes(hashlib.sha256(f"{self.name}|{text_of_place}".encode()).digest()[:7]) / 2**56
        limits = self.range
        if limits is None:
            return self.values[int(share * len(self.values))]
        if self.axis.uniform is not None:
            raw = limits.low + share * (limits.high - limits.low)
        else:
            raw = math.exp(math.log(limits.low) + share * (math.log(limits.high) - math.log(limits.low)))
        number = min(max(float(f"{raw:.{limits.digits}g}"), limits.low), limits.high)
        if number not in self.drawn:
            settings = tuple(Setting(path, number, position) for path, position in self.targets)
            self.drawn[number] = Value(self.name, number, _id(self.name, self.axis, number), settings)
        return self.drawn[number]


def compile_axes(document: Document, axes: Mapping[str, Axis], problems: list[str]) -> list[CompiledAxis]:
    """Returns the axes in order, and appends one line per mistake in keys, values and conditions to `problems`."""
    made: list[CompiledAxis] = []
    words = [name for name, axis in axes.items() if axis.words is not None]
    for name, axis in axes.items():
        path: KeyPath = ("grid", "axes", name)
        found = CompiledAxis(name, axis, [], path)
        found.targets = list(_targets(document, path, axis, problems))
        found.values = list(_values(document, path, name, axis, found.targets, problems))
        if axis.when is not None:
            known = {other.name: other.plain for other in made}
            found.applies, found.asked = compile_condition(document, (*path, "when"), axis.when, known, problems)
        for setting in (*(s for value in found.values for s in value.settings), *(Setting(p, None, m) for p, m in found.targets)):
            for asked in setting.placeholders:
                if asked not in words:
                    problems.append(setting.position.line(f"found <{asked}>; {nearest(asked, words)} (an axis of kind words)"))
        made.append(found)
    return made


def _targets(document: Document, path: KeyPath, axis: Axis, problems: list[str]) -> Iterator[tuple[tuple[str, ...], Position]]:
    places = [((*path, "keys", i), key) for i, key in enumerate(axis.keys)]
    places += [((*path, "zip", key), key) for key in axis.zip or {}]
    places += [((*path, "key"), axis.key)] if axis.key is not None else []
    for at, key in places:
        parts = tuple(key.split("."))
        if parts[0] not in SECTIONS or len(parts) < 2 or not all(parts):
            problems.append(document.at(at).line(f"found {describe(key)}; {nearest(parts[0], SECTIONS)}, with a key of it behind a dot"))
        else:
            yield parts, document.at(at)


def _values(
    document: Document, path: KeyPath, name: str, axis: Axis, targets: list[tuple[tuple[str, ...], Position]], problems: list[str]
) -> Iterator[Value]:
    def value(plain: Any, settings: Iterable[Setting], parts: Iterable[str] = ()) -> Value:
        sets, stands_for = tuple(settings), tuple(parts)
        return Value(name, plain, _id(name, axis, plain) if sets or stands_for else "", sets, stands_for)

    if axis.words is not None:
        yield from (value(word, (), parts) for word, parts in axis.words.items())
    if axis.zip is not None:
        for i, row in enumerate(zip(*axis.zip.values(), strict=True)):
            plain = axis.names[i] if axis.names else row[0] if len(set(map(str, row))) == 1 else "x".join(map(text, row))
            pairs = [(target, item) for target, item in zip(targets, row, strict=False) if item != UNSET]
            yield value(plain, (Setting(parts, item, document.at((*position.path, i))) for (parts, position), item in pairs))
    given = axis.grid if axis.grid is not None else axis.choice or []
    for i, item in enumerate(given):
        at = (*path, axis.kind, item if isinstance(given, dict) else i)
        content, position = given[item] if isinstance(given, dict) else item, document.at(at)
        if not isinstance(given, dict) and isinstance(item, (dict, list, type(None))):
            problems.append(position.line(f"found {describe(item)}; expected a plain value, or values with names as a mapping NAME: VALUE"))
        elif content == UNSET:
            yield value(item, ())
        elif targets:
            yield value(item, (Setting(parts, content, position) for parts, _ in targets))
        else:
            yield value(item, list(_sections(document, at, content, problems)))
    if len({text(item) for item in given}) != len(given):
        problems.append(document.at((*path, axis.kind)).line("found a value twice; expected each once"))


def _sections(document: Document, path: KeyPath, value: Any, problems: list[str]) -> Iterator[Setting]:
    """Yields the settings of a mapping of dotted keys or spec sections, down to the components."""
    if not isinstance(value, (dict, type(None))):
        problems.append(document.at(path).line(f"found {describe(value)}; expected sections of the spec, or a key beside the values"))
        return
    for section, keys in (value or {}).items():
        at = (*path, section)
        parts = tuple(section.split("."))
        if len(parts) > 1 and all(parts) and parts[0] in SECTIONS:
            yield Setting(parts, keys, document.at(at))
        elif section not in SECTIONS:
            problems.append(document.at(at).line(f"unknown section; {nearest(section, SECTIONS)}"))
        elif not isinstance(keys, dict):
            problems.append(document.at(at).line(f"found {describe(keys)}; expected a mapping"))
        else:
            for key, item in keys.items():
                if section == "model" and key in SIDES and isinstance(item, dict):
                    for inner, deep in item.items():
                        yield Setting((section, key, inner), deep, document.at((*at, key, inner)))
                else:
                    yield Setting((section, key), item, document.at((*at, key)))


def _id(name: str, axis: Axis, plain: Any) -> str:
    """Returns a value's part of row names, after the axis's `id` or else its name (`depth24`); text has no default prefix (`mlrf`)."""
    alone = isinstance(plain, str) and axis.id is None
    prefix = "" if alone else name if axis.id is None else axis.id
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{prefix}{text(plain)}".replace("e+", "e"))


def bound(setting: Setting, words: Mapping[str, tuple[str, ...]]) -> list[tuple[tuple[str, ...], Any, Position]]:
    """Expands the <words> of a setting to all its paths. Raises KeyError if one of them does not apply."""
    paths = [setting.path]
    for name in setting.placeholders:
        paths = [tuple(part.replace(f"<{name}>", word) for part in path) for path in paths for word in words[name]]
    return [(path, setting.value, setting.position) for path in paths]
