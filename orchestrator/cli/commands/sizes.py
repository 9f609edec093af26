"""`--ladder`: the options of a command at each of several sizes, and the ladder of the results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from orchestrator.cli.commands.request import Request
from orchestrator.errors import UserError
from orchestrator.report import ladder
from orchestrator.report.ladder import Ladder, Size
from orchestrator.report.page.section import Section
from orchestrator.specs import index, profiles
from orchestrator.specs.positions import shown
from orchestrator.sweeps.options import RowOptions

FILE = "file"
"""The value of `--ladder` that selects the section of the table's file."""
Options = TypeVar("Options", bound=RowOptions)


def at_sizes(options: Options, *targets: str) -> list[Options]:
    """Returns the options at each size, smallest first; without `--ladder` the options themselves. UserError: no such ladder."""
    if options.ladder is None:
        return [options]
    if options.profile is not None:
        raise UserError("--ladder: found --profile too; expected one of them")
    names = _of_file(targets) if options.ladder == FILE else [name.strip() for name in options.ladder.split(",")]
    if len(set(names)) < max(2, len(names)):
        raise UserError(f"--ladder {shown(options.ladder)}: expected two or more different profiles with commas between, or `{FILE}`")
    for name in names:
        profiles.load(name, "--ladder")
    return [replace(options, profile=name, ladder=None) for name in names]


def _of_file(targets: Sequence[str]) -> list[str]:
    found = {tuple(each.table.head.ladder) for target in targets for each in index.find_all(target)}
    if len(found) != 1 or () in found:
        raise UserError(
            f"--ladder {FILE}: {', '.join(targets)}: found no section `ladder` that all tables share; expected profiles in the option"
        )
    return list(*found)


def make_ladders(found: Sequence[tuple[Request, Sequence[Section]]]) -> list[Ladder]:
    """Returns the ladder of each table, from the request and the tables of each size."""
    by_table = [{section.table.table: Size(str(request.options.profile), section) for section in own} for request, own in found]
    names = dict.fromkeys(name for each in by_table for name in each)
    return [ladder.make([each[name] for each in by_table if name in each]) for name in names]
