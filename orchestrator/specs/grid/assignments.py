"""Applies the values of a grid combination to the sections of its file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orchestrator.specs.grid.axes import bound
from orchestrator.specs.grid.combinations import Combination
from orchestrator.specs.positions import KeyPath, Located, Position, dotted

Assignment = tuple[tuple[str, ...], Any, Position]
"""(path in the spec, value, position in the file)."""
REGULARIZERS = ("model", "regularizers")


class ConflictError(Exception):
    """Two axes set one key, or <words> have no value. The message is a complete error line."""


def assignments(values: Combination) -> list[Assignment]:
    """Returns the assignments of a combination in axis order. Raises ConflictError if <words> refer to an axis that does not apply."""
    words = {value.axis: value.words for value in values if value.words}
    found: list[Assignment] = []
    for value in values:
        for setting in value.settings:
            missing = [name for name in setting.placeholders if name not in words]
            if missing:
                other = ", ".join(v.shown for v in values)
                raise ConflictError(setting.position.line(f"<{missing[0]}> stands for nothing where [{other}]; expected a narrower `when`"))
            found += bound(setting, words)
    return found


def apply(sets: Iterable[Assignment], base: Located) -> Located:
    """Merges the assignments onto `base` like the keys of a row. Raises ConflictError if one overwrites an earlier one."""
    over: dict[str, Any] = {}
    done: dict[tuple[str, ...], Position] = {}
    positions: dict[KeyPath, Position] = {}
    listed: list[Assignment] = []
    for path, value, position in sets:
        clash = next((other for other in done if other[: len(path)] == path), None)
        if clash is not None:
            other = f"{done[clash].where} ({dotted(done[clash].path)})"
            raise ConflictError(position.line(f"sets {dotted(path)}, which {other} sets too; expected one"))
        done[path] = position
        if path[:2] == REGULARIZERS and len(path) > 2:
            listed.append((path[2:], value, position))
        else:
            over, positions[path] = placed(over, path, value), position
    merged = base.merged(Located(over, base.home, positions))
    return _with_regularizers(merged, listed) if listed else merged


def _with_regularizers(row: Located, sets: list[Assignment]) -> Located:
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
    """Returns a copy of nested mappings with a value at a path."""
    first, rest = path[0], path[1:]
    below = tree if isinstance(tree, dict) else {}
    return {**below, first: placed(below.get(first), rest, value) if rest else value}
