"""`report`: tables as one HTML page, or as Markdown; and the page that `sweep` writes at its end."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.cli.commands.request import Request
from orchestrator.cli.commands.sizes import make_ladders
from orchestrator.cli.commands.table import by_size, sections
from orchestrator.cli.output import version
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.folders import checked, make
from orchestrator.report.ladder import Ladder
from orchestrator.report.page import markdown, render
from orchestrator.report.page.section import Section
from orchestrator.safe_text import log, visible
from orchestrator.specs.controls import parse
from orchestrator.specs.positions import shown
from orchestrator.sweeps.names import address_of, sweep_name
from orchestrator.sweeps.options import ExecutionOptions, RowOptions, file_name
from orchestrator.tracking.artifacts import log_page, page_of
from orchestrator.tracking.environment import reason

MOST_ROWS = 500
"""Sweeps with more rows write no page themselves: 100 rows with three seeds have 3 MB."""


def report(
    targets: Sequence[str],
    options: RowOptions,
    *,
    to: Path | None = None,
    baseline: str | None = None,
    second_corpora: Sequence[str] = (),
    text: Path | None = None,
    as_markdown: bool = False,
) -> None:
    """Writes the page and prints its path. Arguments: options of the command."""
    suffix = ".md" if as_markdown else ".html"
    if to is not None and to.suffix in {".html", ".md"} - {suffix}:
        raise UserError(f"--to {shown(str(to))}: expected a folder or a {suffix} file; `--markdown` writes .md")
    if to is not None:
        checked(to.parent if to.suffix == suffix else to, "--to")
    if options.ladder is not None and second_corpora:
        raise UserError("--ladder: found --second-corpus too; expected one of them")
    if text is not None and not as_markdown:
        raise UserError("--text: found no --markdown; expected both, for the text is Markdown")
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Section] = {}  # a table that several targets name appears once
    names = []
    climbed: list[Ladder] = []
    for target in dict.fromkeys(targets):
        found_of = by_size(target, options, baseline)
        request, own = found_of[0]
        if options.ladder is not None:
            climbed += make_ladders(found_of)
            sized = [(one, f"{one.table.table}, {each.options.profile}") for each, its in found_of for one in its]
            own = [replace(one, table=replace(one.table, table=name)) for one, name in sized]
        for corpus in second_corpora:
            there = replace(options, sets=[*(options.sets or []), f"data.corpus={corpus}"])
            second = sections(Request.of(target, there, data=request.finder.data), baseline)
            tables = {section.table.table: section.table for section in second}
            own = [
                replace(section, second={**section.second, corpus: tables[section.table.table]})
                for section in own
                if section.table.table in tables
            ]
        found |= {(section.table.table, tuple((row.id, row.source_file) for row in section.rows)): section for section in own}
        names.append(address_of(target, request.rows, request.found))
    name = sweep_name("+".join(dict.fromkeys(names)), options.ladder or options.profile, options.sets, parse(options.controls))
    name = file_name(name, 100)  # file systems take no longer names of the page and its figures
    made = list(found.values())
    texts = {} if text is None else _texts(text, {section.table.table.partition("/")[0] for section in made})
    if as_markdown:
        path = _path(options, name, suffix, to)
        for file, content in markdown.report(_title(made), made, path.stem, texts, climbed).items():
            atomic.write_text(path.parent / file, content)
    else:
        path = _write_page(made, options, name, to, climbed)
    print(visible(str(path)))


def _texts(path: Path, papers: Iterable[str]) -> dict[str, str]:
    """Returns paper -> the text at the start of its page; '': at the start of the front page."""
    beside = {paper: path.with_name(f"{path.stem}-{paper}.md") for paper in papers}
    try:
        return {paper: file.read_text(encoding="utf-8") for paper, file in ({"": path} | beside).items() if not paper or file.is_file()}
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--text {shown(str(path))}: {reason(error)}") from None


def write_sweep_page(tables: list[Section], options: ExecutionOptions) -> Path | None:
    """Writes the page of a finished sweep, also to MLflow. None, with one line, if it has too many rows or cannot be written."""
    if sum(len(section.rows) for section in tables) > MOST_ROWS:
        log(f"no page is written of more than {MOST_ROWS} rows; `nmt-ablate report` makes one of any tables")
        return None
    try:
        path = _write_page(tables, options, options.slug)
    except Exception as error:  # the results are complete, also without the page
        log(f"warning: the page of the results could not be written ({reason(error)})")
        return None
    if not options.no_tracking and (warning := log_page(options.results, options.slug, options.tracking_uri)):
        log(warning)
    return path


def _title(found: Sequence[Section]) -> str:
    names, scales = "; ".join(dict.fromkeys(section.table.table for section in found)), {section.scale for section in found}
    return f"{names} ({found[0].scale})" if len(scales) == 1 and found[0].scale else names


def _write_page(found: Sequence[Section], options: RowOptions, name: str, to: Path | None = None, ladders: Sequence[Ladder] = ()) -> Path:
    """Writes the page, by default RESULTS/reports/NAME.html."""
    path = _path(options, name, ".html", to)
    atomic.write_text(path, render.page(_title(found), found, version(), ladders=ladders))
    return path


def _path(options: RowOptions, name: str, suffix: str, to: Path | None) -> Path:
    """Returns the file to write, in an existing folder. to: the file itself if it has the suffix, else its folder."""
    path = page_of(options.results, name).with_name(name + suffix) if to is None else to if to.suffix == suffix else to / (name + suffix)
    make(path.parent, "--results" if to is None else "--to")
    return path
