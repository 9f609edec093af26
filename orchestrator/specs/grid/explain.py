"""Explains which combinations of a grid are rows, and what excludes the others."""

import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from orchestrator.errors import UserError, for_each
from orchestrator.specs import index
from orchestrator.specs.grid.axes import text, words
from orchestrator.specs.grid.combinations import Grid, row_name
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.table_file import TableFile

EXAMPLES = 5


def explain(target: str, given: list[str]) -> dict[str, Any]:
    """Returns `summary` of the combinations with the given values.

    given: AXIS=VALUE items; other axes take every value. Raises UserError for a file without a grid, an unknown axis or an unknown value.
    """
    table = index.find(target).table
    grid = table.grid
    if grid is None:
        raise UserError(*(table.problems or [f"{table.document.file}:1: grid is missing; expected a file with a grid"]))
    only = dict(for_each(lambda item: _choice(grid, item), given))
    if len(only) < len(given):
        raise UserError(f"{shown(' '.join(given))}: found an axis twice; expected one value for each axis")
    return {"given": given} | summary(table, only)


def summary(table: TableFile, only: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the numbers of combinations, rows and repeated draws of a grid, examples, and the lines that exclude other combinations.

    only: axis -> the text of its value in the combinations that count.
    """
    grid, only = table.grid, only or {}
    assert grid is not None
    rows, reasons, whens = dict[str, None](), Counter[str](), dict[str, str]()
    for name in only:
        when = f"{name} applies only when {{{words(grid.section.axes[name].when or {})}}}"
        whens[name] = grid.document.at(("grid", "axes", name, "when")).line(when)
    for each in grid.found:
        if any(name in each.chosen and not _is(value, each.chosen[name]) for name, value in only.items()):
            continue
        absent = next((name for name in only if name not in each.chosen), None)
        if absent is not None:
            reasons[whens[absent]] += 1
        elif each.excluded is not None:
            reasons[grid.exclusions[each.excluded]] += 1
        else:
            rows[row_name(each.values)] = None
    excluded = [{"line": line, "combinations": number} for line, number in reasons.most_common()]
    told = {"table": table.address, "combinations": len(rows) + reasons.total(), "rows": len(rows), "drawn_twice": grid.repeated}
    return told | {"examples": [f"{table.address}/{name}" for name in list(rows)[:EXAMPLES]], "excluded": excluded}


def _choice(grid: Grid, item: str) -> tuple[str, str]:
    """Axis and value of an item AXIS=VALUE."""
    axes = {axis.name: axis for axis in grid.axes}
    name, _, value = item.partition("=")
    if not value:
        raise UserError(f"{shown(item)}: expected AXIS=VALUE; axes: {', '.join(axes)}")
    if name not in axes:
        raise UserError(f"{shown(item)}: unknown axis; {nearest(name, axes)}")
    if not axes[name].axis.random and not any(_is(value, each.plain) for each in axes[name].values):
        raise UserError(f"{shown(item)}: unknown value of {name}; {nearest(value, [text(v.plain) for v in axes[name].values])}")
    return name, value


def _is(given: str, plain: Any) -> bool:
    if text(plain) == given or isinstance(plain, (str, bool)):
        return text(plain) == given
    with contextlib.suppress(ValueError, TypeError):
        return float(given) == float(plain)
    return False
