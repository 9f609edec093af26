"""Explains which combinations of a grid are rows, and what excludes the others."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs import index
from orchestrator.specs.grid.axes import CompiledAxis, Value
from orchestrator.specs.grid.combinations import Grid, row_name
from orchestrator.specs.grid.conditions import text, words
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.rows import validate

EXAMPLES = 5


def explain(target: str, given: list[str]) -> dict[str, Any]:
    """Returns {"given", "combinations", "rows", "examples", "excluded": [{"line", "combinations"}]}.

    given: AXIS=VALUE items; other axes take every value. Raises UserError for a file without a grid, an unknown axis or an unknown value.
    """
    table = index.find(target).table
    if table.grid is None:
        raise UserError(*(table.problems or [f"{table.document.file}:1: grid is missing; expected a file with a grid"]))
    validate(table)
    grid = table.grid
    only = _given(grid, given)
    refused = grid.refused or {}
    found, inapplicable = grid.walk(only)
    reasons = Counter(grid.excluded[each.excluded].line for each in found if each.excluded is not None)
    rows = [row_name(each.values) for each in found if each.excluded is None]
    reasons += Counter(refused[name] for name in rows if name in refused)
    rows = [name for name in rows if name not in refused]
    for axis, number in Counter(axis.name for axis in inapplicable).items():
        position, condition = grid.document.at(("grid", "axes", axis, "when")), words(grid.section.axes[axis].when)
        reasons[position.line(f"{axis} applies only when {{{condition}}}")] += number
    names = list(dict.fromkeys(rows))
    if not names and not reasons:
        random = {axis.name for axis in grid.axes if axis.random}
        drawn = ", ".join(item for item in given if item.partition("=")[0] in random)
        reasons[grid.position.line(f"no sample drew {drawn}; expected a value of one of the rows, or more samples")] += 1
    return {
        "given": given,
        "combinations": len(names) + sum(reasons.values()),
        "rows": len(names),
        "examples": [f"{table.address}/{name}" for name in names[:EXAMPLES]],
        "excluded": [{"line": line, "combinations": number} for line, number in reasons.most_common()],
    }


def summary(table: TableFile) -> dict[str, Any]:
    """Returns the numbers of combinations, rows and repeated draws of a grid, and what excludes the other combinations."""
    grid = table.grid
    assert grid is not None
    if grid.refused is None:
        validate(table)
    refused = grid.refused or {}
    rows = len(grid.combinations()) - len(refused)
    lines = {grid.excluded[i].line: number for i, number in sorted(grid.counts.items())} | Counter(refused.values())
    return {
        "table": table.address,
        "combinations": rows + sum(lines.values()),
        "rows": rows,
        "drawn_twice": grid.repeated,
        "excluded": [{"line": line, "combinations": number} for line, number in lines.items()],
    }


def _given(grid: Grid, given: list[str]) -> dict[str, Callable[[Value], bool]]:
    axes = {axis.name: axis for axis in grid.axes}
    only: dict[str, Callable[[Value], bool]] = {}
    problems: list[str] = []
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not value:
            problems.append(f"{shown(item)}: expected AXIS=VALUE; axes: {', '.join(axes)}")
        elif name not in axes:
            problems.append(f"{shown(item)}: unknown axis; {nearest(name, axes)}")
        elif name in only:
            problems.append(f"{shown(item)}: found {name} twice; expected one value for each axis")
        else:
            problems += _unknown(axes[name], item, value)
            only[name] = lambda v, value=value: _is(v, value)  # type: ignore[misc]
    if problems:
        raise UserError(*problems)
    return only


def _unknown(axis: CompiledAxis, item: str, value: str) -> list[str]:
    limits = axis.range
    if limits is None:
        known = [text(v.plain) for v in axis.values]
        return [] if any(_is(v, value) for v in axis.values) else [f"{shown(item)}: unknown value of {axis.name}; {nearest(value, known)}"]
    with contextlib.suppress(ValueError):
        if limits.low <= float(value) <= limits.high:
            return []
    return [f"{shown(item)}: expected a number from {limits.low:g} to {limits.high:g}"]


def _is(value: Value, given: str) -> bool:
    if text(value.plain) == given:
        return True
    if isinstance(value.plain, (str, bool)):
        return False
    with contextlib.suppress(ValueError, TypeError):
        return float(given) == float(value.plain)
    return False
