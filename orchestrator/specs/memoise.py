"""Memoised values per spec section, shared by the rows that share it. Sections must not be modified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_ENTRIES = 200_000
_by_identity: dict[tuple[str, int], tuple[Any, Any]] = {}
_by_value: dict[Any, Any] = {}


def memoised(name: str, section: Any, compute: Callable[[], Any]) -> Any:
    """Returns the result of `compute`, cached by the identity of `section`; `name` distinguishes several results of one object."""
    known = _by_identity.get((name, id(section)))
    if known is not None:
        return known[1]
    if len(_by_identity) >= MAX_ENTRIES:
        _by_identity.clear()
    result = compute()
    _by_identity[name, id(section)] = (section, result)  # keeps the object alive so that its id is not reused
    return result


def memoised_by_value(key: Any, compute: Callable[[], Any]) -> Any:
    """Returns the result of `compute`, cached by the value of `key`."""
    if key not in _by_value:
        if len(_by_value) >= MAX_ENTRIES:
            _by_value.clear()
        _by_value[key] = compute()
    return _by_value[key]
