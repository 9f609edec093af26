"""Explains which combinations of a grid are rows, and what excludes the others."""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

from orchestrator.errors import UserError, raise_all
from orchestrator.specs import index
from orchestrator.specs.grid.axes import Value, text, words
from orchestrator.specs.grid.combinations import Grid, row_name
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.rows import validate
from orchestrator.specs.table_file import TableFile

EXAMPLES = 5


def explain(target: str, given: list[str]) -> dict[str, Any]:
    """Returns which combinations are rows and which lines exclude the others.

    given: AXIS=VALUE items; other axes take every value. Raises UserError for a file without a grid, an unknown axis or an unknown value.
    """
    table = index.find(target).table
    if table.grid is None:
        raise UserError(*(table.problems or [f"{table.document.file}:1: grid is missing; expected a file with a grid"]))
    validate(table)
    grid, refused = table.grid, table.grid.refused or {}
    only = _given(grid, given)
    found, inapplicable = grid.walk(only)
    reasons = Counter(grid.excluded[each.excluded].line for each in found if each.excluded is not None)
    names = [row_name(each.values) for each in found if each.excluded is None]
    reasons += Counter(refused[name] for name in names if name in refused)
    for axis, number in Counter(axis.name for axis in inapplicable).items():
        position, condition = grid.document.at(("grid", "axes", axis, "when")), words(grid.section.axes[axis].when)
        reasons[position.line(f"{axis} applies only when {{{condition}}}")] += number
    rows = list(dict.fromkeys(name for name in names if name not in refused))
    if not rows and not reasons:
        drawn = ", ".join(item for item in given if grid.section.axes[item.partition("=")[0]].random)
        reasons[grid.position.line(f"no sample drew {drawn}; expected a value of one of the rows, or more samples")] += 1
    examples = [f"{table.address}/{name}" for name in rows[:EXAMPLES]]
    excluded = [{"line": line, "combinations": number} for line, number in reasons.most_common()]
    total = len(rows) + sum(reasons.values())
    return {"given": given, "combinations": total, "rows": len(rows), "examples": examples, "excluded": excluded}


def summary(table: TableFile) -> dict[str, Any]:
    """Returns the numbers of combinations, rows and repeated draws of a grid, and what excludes the other combinations."""
    grid = table.grid
    assert grid is not None
    if grid.refused is None:
        validate(table)
    refused = grid.refused or {}
    rows = len(grid.combinations) - len(refused)
    lines = {grid.excluded[i].line: number for i, number in sorted(grid.counts.items())} | Counter(refused.values())
    excluded = [{"line": line, "combinations": number} for line, number in lines.items()]
    total = rows + sum(lines.values())
    return {"table": table.address, "combinations": total, "rows": rows, "drawn_twice": grid.repeated, "excluded": excluded}


def _given(grid: Grid, given: list[str]) -> dict[str, Callable[[Value], bool]]:
    axes = {axis.name: axis for axis in grid.axes}
    only: dict[str, Callable[[Value], bool]] = {}
    problems: list[str] = []
    for item in given:
        name, _, value = item.partition("=")
        wrong = None
        if not value:
            wrong = f"expected AXIS=VALUE; axes: {', '.join(axes)}"
        elif name not in axes:
            wrong = f"unknown axis; {nearest(name, axes)}"
        elif name in only:
            wrong = f"found {name} twice; expected one value for each axis"
        else:
            if not axes[name].axis.random and not any(_is(value, each) for each in axes[name].values):
                wrong = f"unknown value of {name}; {nearest(value, [text(v.plain) for v in axes[name].values])}"
            only[name] = functools.partial(_is, value)
        problems += [f"{shown(item)}: {wrong}"] if wrong else []
    raise_all(problems)
    return only


def _is(given: str, value: Value) -> bool:
    if text(value.plain) == given or isinstance(value.plain, (str, bool)):
        return text(value.plain) == given
    with contextlib.suppress(ValueError, TypeError):
        return float(given) == float(value.plain)
    return False
