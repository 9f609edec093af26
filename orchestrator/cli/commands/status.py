"""`status`: sweeps of a results folder. Nothing here loads torch or Ray."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

import typer
from rich.console import Group
from rich.live import Live

from orchestrator.cli.console import console
from orchestrator.cli.output import print_json
from orchestrator.files.folders import need_folder
from orchestrator.ledger import object_store
from orchestrator.safe_text import visible
from orchestrator.sweeps.options import RESULTS
from orchestrator.sweeps.status import summary_of, sweep_status, sweep_table

WATCH_SECONDS = 2.0


def status(results: Path, as_json: bool, watch: bool) -> None:
    if results != RESULTS:
        need_folder(results, "--results")
    place = object_store.display_path(results)
    sweeps = sweep_status(results)
    if watch:
        _watch(results)
    elif as_json:
        print_json({"results": place, "sweeps": sweeps})
    elif not sweeps:
        typer.echo(visible(f"no sweeps in {place} yet; the first one:  nmt-ablate sweep search_spaces/quickstart.yaml"))
    else:
        for sweep in sweeps:
            console().print(sweep_table(sweep))


def _watch(results: Path) -> None:
    """Shows the sweeps that a process drives until none does: a table on a terminal, elsewhere a line a change."""
    out, told = console(), ""
    with Live(console=out, auto_refresh=False) if out.is_terminal else nullcontext() as live:
        while running := [sweep for sweep in sweep_status(results) if sweep["driver"] is not None]:
            text = "\n".join(summary_of(sweep) for sweep in running)
            if live is not None:
                live.update(Group(*(sweep_table(sweep) for sweep in running)), refresh=True)
            elif text != told:
                typer.echo(visible(text) if len(running) == 1 else "\n".join(visible(line) for line in text.splitlines()))
            told = text
            time.sleep(WATCH_SECONDS)
    typer.echo(visible(f"no sweep is running in {object_store.display_path(results)}"))
