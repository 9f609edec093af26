"""`report`: tables as one HTML page, or as Markdown; and the page that `sweep` writes at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.cli.commands.request import Request
from orchestrator.cli.commands.table import sections
from orchestrator.cli.output import version
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.folders import make
from orchestrator.report.page import markdown, render
from orchestrator.report.page.render import script
from orchestrator.report.page.section import Section
from orchestrator.safe_text import log, visible
from orchestrator.specs.controls import parse
from orchestrator.specs.positions import shown
from orchestrator.sweeps.names import address_of, sweep_name
from orchestrator.sweeps.options import ExecutionOptions, RowOptions
from orchestrator.tracking.environment import reason
from orchestrator.tracking.pages import log_page, page_of

LONGEST = 100
"""Characters of a page's name, so that file systems take it."""
MOST_ROWS = 500
"""A sweep of more rows writes no page by itself: a hundred rows with three seeds are 3 MB."""


@dataclass(frozen=True)
class PageOptions:
    """What `report` writes, and where.

    Args:
        to: The file or its folder; None: RESULTS/reports.
        baseline: The row that others are compared with; None: the one that a row starts from.
        second_corpora: What the rows give on them stands beside the claims.
        text: A file that the Markdown page begins with.
        markdown: Markdown with figures beside it in place of HTML.
    """

    to: Path | None = None
    baseline: str | None = None
    second_corpora: tuple[str, ...] = ()
    text: Path | None = None
    markdown: bool = False


def report(targets: Sequence[str], options: RowOptions, page: PageOptions) -> None:
    """Writes the page and prints its path."""
    to, suffix = page.to, ".md" if page.markdown else ".html"
    if to is not None and to.suffix in {".html", ".md"} - {suffix}:
        raise UserError(f"--to {shown(str(to))}: expected a folder or a {suffix} file; `--markdown` writes .md")
    if page.text is not None and not page.markdown:
        raise UserError("--text: found no --markdown; expected both, for the text is Markdown")
    text = None if page.text is None else _read(page.text)
    found: dict[tuple[tuple[str, str], ...], Section] = {}  # a table that several targets name stands there once
    names = []
    for target in dict.fromkeys(targets):
        request = Request.of(target, options)
        own = _with_second(request, sections(request, page.baseline), page)
        found |= {tuple((row.id, row.source_file) for row in section.rows): section for section in own}
        names.append(_address(request))
    name = sweep_name("+".join(dict.fromkeys(names)), options.profile, options.sets, parse(options.controls))
    made = list(found.values())
    path = _write_markdown(made, options, _file_name(name), to, text) if page.markdown else _write_page(made, options, _file_name(name), to)
    print(visible(str(path)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--text {shown(str(path))}: {reason(error)}") from None


def _with_second(request: Request, found: list[Section], page: PageOptions) -> list[Section]:
    """The sections, each with its table on the second corpora that are asked for."""
    for corpus in page.second_corpora:
        there = replace(request.options, sets=[*(request.options.sets or []), f"data.corpus={corpus}"])
        second = Request.of(request.target, there, data=request.finder.data)
        tables = {section.table.table: section.table for section in sections(second, page.baseline)}
        found = [replace(section, second={**section.second, corpus: tables[section.table.table]}) for section in found]
    return found


def write_sweep_page(request: Request, options: ExecutionOptions) -> Path | None:
    """Writes the page of a sweep that has ended, in MLflow too. None, with one line, if it has too many rows or cannot be written."""
    if len(request.rows) > MOST_ROWS:
        log(f"no page is written of more than {MOST_ROWS} rows; `nmt-ablate report` makes one of any tables")
        return None
    try:
        path = _write_page(sections(request, None, quiet=True), options, options.slug)
    except Exception as error:  # the results are there, whatever becomes of the page
        log(f"warning: the page of the results could not be written ({reason(error)})")
        return None
    if not options.no_tracking and (warning := log_page(options.results, options.slug, options.tracking_uri)):
        log(warning)
    return path


def _address(request: Request) -> str:
    """The folder, table or row that the target names."""
    found = request.found
    return address_of(request.target, request.rows, found) if len(found) > 1 or found[0].row is None else request.rows[0].id


def _file_name(name: str) -> str:
    return name.replace("/", "-").replace(":", "-")[:LONGEST]


def _title(found: Sequence[Section]) -> str:
    return ", ".join(dict.fromkeys(section.table.table for section in found)) + (f" ({found[0].scale})" if found[0].scale else "")


def _write_page(found: Sequence[Section], options: RowOptions, name: str, to: Path | None = None) -> Path:
    """Writes the page, by default RESULTS/reports/NAME.html."""
    path = _path(options, name, ".html", to)
    atomic.write_text(path, render.page(_title(found), found, script, version()))
    return path


def _write_markdown(found: Sequence[Section], options: RowOptions, name: str, to: Path | None, text: str | None) -> Path:
    """Writes the text, by default RESULTS/reports/NAME.md, and its figures beside it."""
    path = _path(options, name, ".md", to)
    written, figures = markdown.report(_title(found), found, path.stem, text)
    for file, drawing in figures.items():
        atomic.write_text(path.parent / file, drawing)
    atomic.write_text(path, written)
    return path


def _path(options: RowOptions, name: str, suffix: str, to: Path | None) -> Path:
    """The file to write, in a folder that exists. to: the file itself if it has the suffix, else its folder."""
    path = page_of(options.results, name).with_name(name + suffix) if to is None else to if to.suffix == suffix else to / (name + suffix)
    make(path.parent, "--results" if to is None else "--to")
    return path
