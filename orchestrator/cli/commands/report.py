"""`report`: tables as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.cli.commands.table import sections
from orchestrator.cli.output import version
from orchestrator.files import atomic
from orchestrator.files.folders import make
from orchestrator.report.page.render import page
from orchestrator.report.page.section import Section
from orchestrator.report.page.vega_script import script
from orchestrator.safe_text import visible
from orchestrator.specs.gc_pause import no_garbage_collection
from orchestrator.sweeps.options import RowOptions

FOLDER = "reports"


@no_garbage_collection(freeze=True)
def report(targets: Sequence[str], to: Path | None, baseline: str | None, options: RowOptions) -> None:
    """Writes the page and prints its path."""
    found = [section for target in targets for section in sections(target, baseline, options)]
    names = list(dict.fromkeys(section.table.table for section in found))
    profile = "" if options.profile is None else f"@{Path(options.profile).stem}"
    path = write(found, options, "+".join(name.replace("/", "-") for name in names)[:80] + profile, to)
    print(visible(str(path)))


def write(found: Sequence[Section], options: RowOptions, name: str, to: Path | None = None) -> Path:
    """Writes NAME.html to `to`, by default RESULTS/reports."""
    folder = options.results / FOLDER if to is None else to
    make(folder, "--results" if to is None else "--to")
    title = ", ".join(dict.fromkeys(section.table.table for section in found)) + (f" ({found[0].scale})" if found[0].scale else "")
    path = folder / f"{name}.html"
    atomic.write_text(path, page(title, found, script(options.cache_dir), version()))
    return path
