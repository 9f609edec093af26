"""Options that are one number."""

from __future__ import annotations

from orchestrator.analysis.base import Context, numbers
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown


def whole(context: Context, name: str, least: int = 0) -> int:
    """UserError naming the option for anything but one whole number >= `least`."""
    text = context.options[name]
    found = numbers(name, text, least=least)
    if len(found) != 1:
        raise UserError(f"--option {name}={shown(text)}: found {len(found)} numbers; expected one")
    return found[0]
