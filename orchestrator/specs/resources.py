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


def parse(text: str | None) -> dict[str, Any]:
    """Parses the option `--resources`: `gpu=0.5,memory=12G` -> {"gpu": 0.5, "memory": "12G"}. Raises UserError for anything malformed."""
    found: dict[str, Any] = {}
    problems = []
    for part in [] if text is None else text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        words = {"gpu": ("auto",), "memory": ("auto", "none")}
        if name not in words:
            problems.append(f"--resources {shown(part)}: unknown key; {nearest(name, words)}")
            continue
        try:
            if value in words[name]:
                found[name] = value
            elif name == "memory":
                size(value)
                found[name] = value
            else:
                found[name] = float(value)
        except ValueError:
            found[name] = "?"
        problem = _problem(name, found[name])
        if problem:
            problems.append(f"--resources {shown(part)}: {problem}")
    if problems:
        raise UserError(*problems)
    return found


def _problem(name: str, value: Any) -> str | None:
    if name == "gpu" and value != "auto" and not (isinstance(value, float) and valid_share(value)):
        return "expected auto, a part of a GPU such as 0.25, or whole ones"
    if name == "memory" and value == "?":
        return "expected auto, none or a size such as 12G"
    return None


def valid_share(value: float) -> bool:
    """Returns whether `value` is a fraction of one GPU or a whole number of GPUs, as Ray requires."""
    return 0.01 <= value <= 1 or (1 < value <= 64 and value == int(value))
