"""`--set KEY=VALUE` overrides: one more layer on a row, validated like the file."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs import yaml_file
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import SLOTS
from orchestrator.specs.positions import KeyPath, Located, Position, nearest, shown

_ELSEWHERE = {"seed": "use --seed", "init_from": "it is part of the row", "workers": "use --workers"}


@dataclass(frozen=True)
class Override:
    """An override: `path` into the spec (list positions as text), its value, and `text` as the user wrote it."""

    path: tuple[str, ...]
    value: Any
    text: str

    @property
    def position(self) -> Position:
        return Position(f"--set {shown(self.text, 120)}", ())


def parse(sets: list[str]) -> list[Override]:
    """Parses the values of `--set`. Raises UserError with one line per malformed value."""
    found: list[Override] = []
    problems: list[str] = []
    for text in sets:
        try:
            found.append(_one(text))
        except UserError as error:
            problems += error.lines
    for override in found:
        if (first := next(o for o in found if o.path == override.path)).value != override.value:
            problems.append(override.position.line(f"found --set {shown(first.text, 120)} too; expected one value"))
    if problems:
        raise UserError(*problems)
    return found


def apply(row: Located, overrides: list[Override]) -> tuple[Located, list[str]]:
    """Applies overrides to a row in order. Returns the row, and one line per override that does not fit."""
    problems: list[str] = []
    for override in overrides:
        try:
            data = _nest(override.path, override.value, row.data, ())
        except _Unfit as unfit:
            problems.append(override.position.line(str(unfit)))
            continue
        path = tuple(int(p) if p.isdigit() else p for p in override.path)
        made = (path[:length] for length in range(_depth(row.data, path) + 1, len(path)))  # a misspelt key need not be the last
        row = row.merged(Located(data, row.home, {each: Position(override.position.where, each) for each in (*made, path)}))
    return row, problems


def _depth(data: Any, path: KeyPath) -> int:
    """Returns how many parts of `path` exist in `data`."""
    for depth, part in enumerate(path):
        if not (part in data if isinstance(data, dict) else isinstance(data, list)):
            return depth
        data = data[part]
    return len(path)


def for_parent(overrides: list[Override], row: dict[str, Any], parent: dict[str, Any]) -> list[Override]:
    """Returns the overrides that also apply to the parent (`init_from`): all except those of a component whose kind differs there."""
    return [o for o in overrides if (slot := _slot(o.path)) is None or _kind(row, slot) == _kind(parent, slot)]


class _Unfit(Exception):
    pass


def _one(text: str) -> Override:
    key, equals, value = text.partition("=")
    key = key.strip()
    where = f"--set {shown(text, 120)}"
    if not equals or not key or not value.strip():
        raise UserError(f"{where}: expected KEY=VALUE, as in --set model.d_model=256")
    path = tuple(key.split("."))
    if path[0] in _ELSEWHERE:
        raise UserError(f"{where}: {path[0]} cannot be set here: {_ELSEWHERE[path[0]]}")
    if path[0] not in SECTIONS or not all(path):
        raise UserError(f"{where}: {shown(key)}: unknown key; {nearest(path[0], SECTIONS)}")
    document = yaml_file.parse(value, where)
    return Override(path, document.data, text)


def _nest(path: tuple[str, ...], value: Any, current: Any, done: KeyPath) -> Any:
    """Returns `value` at `path` as a nested difference to `current`; a list is copied whole with the item replaced."""
    if not path:
        return value
    if isinstance(current, list):
        if not path[0].isdigit() or len(path[0]) > 6 or int(path[0]) >= len(current):
            raise _Unfit(
                f"{'.'.join(map(str, done))}: found item {shown(path[0])}; expected one of the list's {len(current)} items, from 0"
            )
        items = copy.deepcopy(current)
        index = int(path[0])
        difference = _nest(path[1:], value, current[index], (*done, index))
        old = items[index]
        mergeable = isinstance(old, dict) and isinstance(difference, dict) and difference.get("kind", old.get("kind")) == old.get("kind")
        items[index] = old | difference if mergeable else difference
        return items
    inner = current.get(path[0]) if isinstance(current, dict) else None
    return {path[0]: _nest(path[1:], value, inner, (*done, path[0]))}


def _slot(path: tuple[str, ...]) -> KeyPath | None:
    """Returns the component slot that a path leads into, or None."""
    if path[:2] == ("model", "regularizers"):
        return ("regularizers",)
    return next((slot for slot in SLOTS if path[1 : 1 + len(slot)] == slot), None) if path[0] == "model" else None


def _kind(spec: dict[str, Any], slot: KeyPath) -> Any:
    value: Any = spec.get("model")
    for part in slot:
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, list):
        return [item.get("kind") for item in value if isinstance(item, dict)]
    return value.get("kind") if isinstance(value, dict) else None
