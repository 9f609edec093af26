"""Canonical JSON of plain data and its sha256; equal values have equal text."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(value: Any) -> str:
    """Returns JSON with sorted keys, no spaces and one form per number (1.0 is 1). Raises TypeError or ValueError for other data."""
    return _ENCODER.encode(_normal(value))


def digest(value: Any) -> str:
    """Returns the sha256 of the canonical JSON of a value, as hex digits."""
    return sha256(canonical(value))


def sha256(text: str) -> str:
    """Returns the sha256 of a text in UTF-8, as hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _normal(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place in a key")
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"mapping key {name!r} is not a string")
        return {name: _normal(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no place in a key")
