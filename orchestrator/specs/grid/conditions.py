"""Conditions on the axes of a grid: compiled once, evaluated for each combination, and formatted as in the file."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.specs.grid.schema import TESTS
from orchestrator.specs.positions import Document, KeyPath, describe, nearest

Chosen = Mapping[str, Any]
"""Axis -> its plain value (or name) in a combination; axes that do not apply are absent."""
Test = Callable[[Chosen], bool]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "at_least": operator.ge,
    "at_most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
    "multiple_of": lambda a, b: bool(a % b == 0),
}


def compile_condition(
    document: Document, path: KeyPath, given: Any, known: Mapping[str, list[Any] | None], problems: list[str]
) -> tuple[Test, frozenset[str]]:
    """Returns the test and the axes that it reads, and appends one line per mistake to `problems`.

    A condition on an axis that does not apply is false, including `not`. known: the axes that the condition may use -> their values (None:
    numbers from a range).
    """
    several = given if isinstance(given, list) else [given]
    branches: list[list[Test]] = []
    asked: set[str] = set()
    for i, condition in enumerate(several):
        here = (*path, i) if isinstance(given, list) else path
        if not condition:
            problems.append(document.at(here).line("found an empty condition; expected an axis and its values"))
        tests = []
        for axis, wanted in condition.items():
            if axis not in known:
                problems.append(document.at((*here, axis)).line(f"unknown axis, or one below; {nearest(axis, known)}"))
                continue
            asked.add(axis)
            tests.append(_test(document, (*here, axis), axis, wanted, known[axis], problems))
        branches.append(tests)
    return (lambda chosen: any(all(test(chosen) for test in tests) for tests in branches)), frozenset(asked)


def words(given: Any) -> str:
    """Formats a condition as in the file: `aggregation: mlrf, depth: {above: 24}`."""
    if isinstance(given, list):
        return " or ".join(words(each) for each in given)
    return ", ".join(f"{axis}: {_flow(value)}" for axis, value in given.items())


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _test(document: Document, path: KeyPath, axis: str, wanted: Any, values: list[Any] | None, problems: list[str]) -> Test:
    if isinstance(wanted, dict):
        return _comparisons(document, path, axis, wanted, values, problems)
    several = wanted if isinstance(wanted, list) else [wanted]
    for i, value in enumerate(several):
        if values is not None and not any(same(value, other) for other in values):
            at = (*path, i) if isinstance(wanted, list) else path
            problems.append(document.at(at).line(f"found {describe(value)}; {nearest(str(value), [text(v) for v in values])}"))
    if values is None:
        problems.append(document.at(path).line(f"found {_flow(wanted)}; expected a comparison, as in {{at_most: 0.1}}: {axis} is drawn"))
    allowed = {key(value) for value in several if not isinstance(value, (dict, list))}
    return lambda chosen: axis in chosen and key(chosen[axis]) in allowed


def _comparisons(
    document: Document, path: KeyPath, axis: str, wanted: dict[str, Any], values: list[Any] | None, problems: list[str]
) -> Test:
    tests: list[Test] = []
    for name, bound in wanted.items():
        at = (*path, name)
        if name not in TESTS:
            problems.append(document.at(at).line(f"unknown comparison; {nearest(name, TESTS)}"))
        elif name == "not":
            inner = _test(document, at, axis, bound, values, problems)
            tests.append(lambda chosen, inner=inner: axis in chosen and not inner(chosen))  # type: ignore[misc]
        elif not _is_number(bound) or (name == "multiple_of" and bound == 0):
            problems.append(document.at(at).line(f"found {describe(bound)}; expected a number{' other than 0' if bound == 0 else ''}"))
        elif values is not None and not any(map(_is_number, values)):
            problems.append(document.at(at).line(f"found a comparison; {axis} has no numbers: {nearest('', [text(v) for v in values])}"))
        else:
            compare = _COMPARE[name]
            tests.append(lambda c, compare=compare, b=bound: axis in c and _is_number(c[axis]) and compare(c[axis], b))  # type: ignore[misc]
    if not wanted:
        problems.append(document.at(path).line("found an empty comparison; expected one such as {at_least: 12}"))
    return lambda chosen: all(test(chosen) for test in tests)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def key(value: Any) -> Any:
    """Returns a comparison key: 1 and 1.0 are equal, 1 and true are not."""
    return (type(value) if isinstance(value, bool) else None, value)


def same(one: Any, other: Any) -> bool:
    """Returns whether two values have equal comparison keys."""
    return bool(key(one) == key(other))


def text(value: Any) -> str:
    """Formats a value as on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
