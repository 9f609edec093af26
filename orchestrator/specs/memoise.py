"""Memoised values per spec section, shared by the rows that share it. The sections are never changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_ENTRIES = 200_000
_by_identity: dict[tuple[str, int], tuple[Any, Any]] = {}
_by_value: dict[Any, Any] = {}


def memoised(name: str, section: Any, compute: Callable[[], Any]) -> Any:
    """The result of `compute` for this very object; `name` distinguishes several results of one object."""
    known = _by_identity.get((name, id(section)))
    if known is not None:
        return known[1]
    if len(_by_identity) >= MAX_ENTRIES:
        _by_identity.clear()
    result = compute()
    _by_identity[name, id(section)] = (section, result)  # holds the object, so that no other gets its id
    return result


def memoised_by_value(key: Any, compute: Callable[[], Any]) -> Any:
    """The result of `compute` for an equal key."""
    if key not in _by_value:
        if len(_by_value) >= MAX_ENTRIES:
            _by_value.clear()
        _by_value[key] = compute()
    return _by_value[key]
