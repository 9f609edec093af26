"""`--ladder`: the options of a command at each of several sizes, and the ladder of what was found there."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from orchestrator.errors import UserError
from orchestrator.report import ladder
from orchestrator.report.ladder import Ladder, Size
from orchestrator.report.page.section import Section
from orchestrator.specs import index, profiles
from orchestrator.specs.positions import shown
from orchestrator.sweeps.options import RowOptions

FILE = "file"
"""The value of `--ladder` that stands for the section of the table's file."""
Options = TypeVar("Options", bound=RowOptions)


def at_sizes(target: str, options: Options) -> list[Options]:
    """The options at each size, smallest first; the options themselves without `--ladder`. UserError for what names no ladder."""
    if options.ladder is None:
        return [options]
    if options.profile is not None:
        raise UserError("--ladder: found --profile too; expected one of them")
    names = _of_file(target) if options.ladder == FILE else [name.strip() for name in options.ladder.split(",")]
    if len(set(names)) < max(2, len(names)):
        raise UserError(f"--ladder {shown(options.ladder)}: expected two or more different profiles with commas between, or `{FILE}`")
    for name in names:
        profiles.load(name, "--ladder")
    return [replace(options, profile=name, ladder=None) for name in names]


def _of_file(target: str) -> list[str]:
    found = {tuple(each.table.ladder) for each in index.find_all(target)}
    if len(found) != 1 or () in found:
        raise UserError(f"--ladder {FILE}: {target}: found no section `ladder` that all tables share; expected profiles in the option")
    return list(*found)


def make_ladders(found: Sequence[tuple[RowOptions, Sequence[Section]]]) -> list[Ladder]:
    """The ladder of each table, from the options and the tables of each size."""
    by_table = [{section.table.table: Size(str(options.profile), section) for section in own} for options, own in found]
    return [ladder.make([each[name] for each in by_table]) for name in by_table[0] if all(name in each for each in by_table)]
