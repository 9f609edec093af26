"""`nmt-ablate --help`: the commands in groups, each with its whole first sentence."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

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
