"""What differs from click: `--help` lists the commands in groups, and an option with two values is refused."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

GROUPS = {
    "Train": ("run", "sweep", "plan", "submit", "status", "stop", "noise"),
    "Results": ("table", "verdict", "report", "ui", "analyse", "translate", "export", "repro"),
    "Rows and components": ("list", "show", "describe", "explain", "ablate", "new", "schema"),
    "Data and storage": ("data", "results", "reconcile", "gc"),
}
"""Title -> commands. Others stand at the end."""


class GroupedHelp(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = {name: command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name)) is not None}
        named = {name for names in GROUPS.values() for name in names}
        for title, names in {**GROUPS, "Others": tuple(name for name in commands if name not in named)}.items():
            lines = [(name, _sentence(commands[name])) for name in names if name in commands and not commands[name].hidden]
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def _sentence(command: Any) -> str:
    """The first sentence of a command's help, whole."""
    return re.split(r"(?<=\?) |\.(?: |$)", " ".join((command.help or "").partition("\n\n")[0].split()))[0]


class OnceCommand(TyperCommand):
    """Refuses an option with two values: click would take the last one without a word."""

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
