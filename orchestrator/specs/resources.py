"""Parses the resources of a sweep: memory sizes, GPU shares and the option `--resources`."""

from __future__ import annotations

from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs.positions import nearest, shown

_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def size(text: str) -> float:
    """Parses a size in bytes, `12G` -> 12e9. Raises ValueError for anything else."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "")
    value = float(number) * _UNITS.get(unit, 1.0)
    if not 0 < value < 1e18:
        raise ValueError(f"{text!r} is no size")
    return value


EXPECTED = {"gpu": "expected auto, a part of a GPU such as 0.25, or whole ones", "memory": "expected auto, none or a size such as 12G"}


def checked(name: str, value: Any) -> Any:
    """Returns the value of a resource. Raises ValueError if it is malformed."""
    if value == "auto" or (name == "memory" and value == "none"):
        return value
    if name == "memory":
        size(value)
        return value
    if not valid_share(float(value)):
        raise ValueError(f"{value} is no share of GPUs")
    return float(value)


def parse(text: str | None) -> dict[str, Any]:
    """Parses the option `--resources`: `gpu=0.5,memory=12G` -> {"gpu": 0.5, "memory": "12G"}. Raises UserError for anything malformed."""
    found: dict[str, Any] = {}
    problems = []
    for part in [] if text is None else text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            found[name] = checked(name, value) if name in EXPECTED else None
        except ValueError:
            problems.append(f"--resources {shown(part)}: {EXPECTED[name]}")
        if name not in EXPECTED:
            problems.append(f"--resources {shown(part)}: unknown key; {nearest(name, EXPECTED)}")
    if problems:
        raise UserError(*problems)
    return found


def valid_share(value: float) -> bool:
    """Returns whether `value` is a fraction of one GPU or a whole number of GPUs, as Ray requires."""
    return 0.01 <= value <= 1 or (1 < value <= 64 and value == int(value))
