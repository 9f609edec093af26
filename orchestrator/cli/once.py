"""A command that refuses an option with two values: click would take the last one without a word."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from orchestrator.errors import UserError
from orchestrator.specs.positions import shown


class OnceCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """UserError for an option that is given with two values; the same value twice is harmless."""
        for option in self.get_params(ctx):
            if option.param_type_name == "option" and not option.multiple and not option.is_flag:  # type: ignore[attr-defined]
                values = dict.fromkeys(_values(args, option.opts))
                if len(values) > 1:
                    raise UserError(f"{option.opts[0]}: found {' and '.join(map(shown, values))}; expected one value")
        return super().parse_args(ctx, args)


def _values(args: list[str], names: list[str]) -> list[str]:
    found = []
    for place, word in enumerate(args):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in names and (equals or place + 1 < len(args)):
            found.append(value if equals else args[place + 1])
    return found
