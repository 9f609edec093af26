"""What was worked out of an object before, so that rows which share a section share the work. The objects are not changed afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST = 200_000
_of_objects: dict[tuple[str, int], tuple[Any, Any]] = {}
_of_values: dict[Any, Any] = {}


def kept(name: str, section: Any, make: Callable[[], Any]) -> Any:
    """What `make` gave for this very object; `name` tells apart what is worked out of one object."""
    known = _of_objects.get((name, id(section)))
    if known is not None:
        return known[1]
    if len(_of_objects) >= MOST:
        _of_objects.clear()
    made = make()
    _of_objects[name, id(section)] = (section, made)  # holds the object, so that no other gets its id
    return made


def remembered(key: Any, make: Callable[[], Any]) -> Any:
    """What `make` gave for an equal key."""
    if key not in _of_values:
        if len(_of_values) >= MOST:
            _of_values.clear()
        _of_values[key] = make()
    return _of_values[key]


def joined(**parts: str) -> str:
    """The canonical JSON of a mapping whose values are canonical already."""
    return "{" + ",".join(f'"{name}":{parts[name]}' for name in sorted(parts)) + "}"
