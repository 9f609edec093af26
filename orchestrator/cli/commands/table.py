"""`table`."""

import sys
from collections.abc import Iterable
from dataclasses import replace

from orchestrator.cli.commands.request import Family, Request
from orchestrator.cli.commands.sizes import at_sizes, make_ladders
from orchestrator.cli.output import console, print_json
from orchestrator.errors import UserError
from orchestrator.report.formats import markdown_ladder, several, show, show_ladder
from orchestrator.report.page.section import Section
from orchestrator.report.table import make
from orchestrator.safe_text import log
from orchestrator.specs.claims import of_table
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.row import short_id
from orchestrator.specs.table import SCORED
from orchestrator.sweeps.options import RowOptions, quoted
from orchestrator.tuning import choice


def table(target: str, form: str | None, columns: str | None, baseline: str | None, options: RowOptions) -> None:
    form = form or ("terminal" if sys.stdout.isatty() else "md")
    names = [] if columns is None else [name.strip() for name in columns.split(",")]
    if columns is not None and not all(names):
        raise UserError(f"--columns {shown(columns)!r}: found an empty name; expected names of columns with commas between, or all")
    if options.ladder is not None:
        if names:
            raise UserError("--columns: found --ladder too; expected one of them")
        _ladders(target, form, baseline, options)
        return
    made = [each.table for _, own in by_size(target, options, baseline) for each in own]
    if form == "terminal":
        for each in made:
            show(console(), each, names)
    else:
        sys.stdout.write(several(made, form, names))


def _ladders(target: str, form: str, baseline: str | None, options: RowOptions) -> None:
    if form == "latex":
        raise UserError("--format latex: found --ladder too; expected terminal, md or json")
    for each in make_ladders(by_size(target, options, baseline)):
        if form == "json":
            print_json(each.as_json())
        elif form == "md":
            sys.stdout.write(f"**{each.table}**\n\n{markdown_ladder(each)}")
        else:
            show_ladder(console(), each)


def by_size(target: str, options: RowOptions, baseline: str | None) -> list[tuple[Request, list[Section]]]:
    """Returns the request and the tables at each size of `--ladder`, or the only ones."""
    requests = [Request.of(target, size) for size in at_sizes(options, target)]
    return [(request, sections(request, baseline)) for request in requests]


def sections(
    request: Request, baseline: str | None, *, seeds: Iterable[int] = (), quiet: bool = False, recording: bool = True
) -> list[Section]:
    """Returns the tables of a target, each with its rows and results. Warnings go to stderr unless `quiet`.

    seeds: seeds to search for besides the seeds in the ledger and in the files. recording: whether this is a look at the claims.
    UserError: the baseline is not in a table.
    """
    families = [family for family in request.families() if family.named(request.rows)]
    if baseline is not None and len({family.address for family in families}) > 1:
        raise UserError(f"--baseline {shown(baseline)}: {shown(str(request.target))} has several tables; expected one")
    tuned = {family.address for family in families if family.searches}
    made = [_section(family, baseline, request, seeds, recording) for family in families]
    # a sweep with a search does not train rows as written
    made = [each for each in made if each.table.table not in tuned or any(each.outcomes.get(row.id) for row in each.rows)]
    for line in dict.fromkeys(line for each in made for line in each.table.warnings if not quiet):
        log(f"warning: {line}")
    return made


def _section(family: Family, baseline: str | None, request: Request, seeds: Iterable[int], recording: bool) -> Section:
    file, address, rows, finder, options = family.file, family.address, family.rows, family.finder, request.options
    named = family.named(request.rows)
    runs = {row.id.removeprefix(f"{address}/"): row.id for row in rows if row.kind in SCORED}
    asked = None if baseline is None else baseline.removeprefix(f"{address}/")
    if asked is not None and asked not in runs:
        raise UserError(f"--baseline {shown(str(baseline))}: no such row of {address}; {nearest(asked, runs)}")
    base = None if asked is None else runs[asked]
    sets = options.sets or []
    scale = ", ".join([f"profile {options.profile}"] * bool(options.profile) + [f"--set {text}" for text in sets])
    full = options.profile is None and all(text.startswith("data.vocab.") for text in sets)
    made = make(
        family.name,
        rows,
        finder,
        file.head.expect_columns,
        {*family.seeds, *seeds},
        scale,
        base=base,
        stated=of_table(address, file.head.claims),
        full_size=full and not family.searches,
        given=options.arguments,
        named=named,
        recording=recording,
    )
    made = replace(made, notes=[*choice.notes(family.searches), *made.notes, *family.notes(made.outcomes)])
    searches = {row: record for row, record in family.searches.items() if row in named}
    own = [row for row in rows if row.id in named]
    given = quoted([] if base is None else ["--baseline", short_id(base)])
    return Section(made, own, made.outcomes, finder, base, scale, options.arguments, given + options.judged, searches=searches)
