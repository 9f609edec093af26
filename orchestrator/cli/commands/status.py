"""`status`: sweeps of a results folder. Nothing here loads torch or Ray."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

import typer
from rich.console import Group
from rich.live import Live

from orchestrator.cli.output import console, print_json
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.ledger import object_store
from orchestrator.safe_text import log, visible
from orchestrator.specs.positions import nearest, shown
from orchestrator.sweeps.names import as_address
from orchestrator.sweeps.options import RESULTS, RowOptions
from orchestrator.sweeps.status import recent_sweeps, summary_of, sweep_status, sweep_table

WATCH_SECONDS = 2.0


def status(name: str | None, results: Path, *, every: bool, as_json: bool, watch: bool) -> None:
    """name: a sweep, or the address of a table or row; None: the sweeps that run and the last ones, or `every` sweep."""
    if results != RESULTS:
        need_folder(results, "--results")
    place = object_store.display_path(results)
    name = None if name is None else as_address(name)
    if watch:
        _watch(results, name)
        return
    paths, more = (None, 0) if every or name is not None else recent_sweeps(results)
    sweeps = sweep_status(results, name=name, paths=paths)
    if as_json:
        print_json({"results": place, "sweeps": sweeps, "more": more})
    elif name is not None and not sweeps:
        known = [sweep["name"] for sweep in sweep_status(results, paths=recent_sweeps(results)[0])]
        raise UserError(f"{shown(name)}: no sweep of it in {place}; {nearest(name, known)}")
    elif not sweeps:
        typer.echo(visible(f"no sweeps in {place} yet; the first one:  nmt-ablate sweep search_spaces/quickstart.yaml"))
    else:
        for sweep in sweeps:
            console().print(sweep_table(sweep))
    if more:
        command = f"nmt-ablate status{RowOptions(results=results).arguments}"
        log(f"{more} earlier {'sweep is' if more == 1 else 'sweeps are'} not shown:  {command} --all, or with a table's address")


def _watch(results: Path, name: str | None) -> None:
    """Shows the sweeps that a process drives until none does: a table on a terminal, elsewhere a line a change."""
    out, told = console(), ""
    with Live(console=out, auto_refresh=False) if out.is_terminal else nullcontext() as live:
        while running := [s for s in sweep_status(results, name=name, paths=recent_sweeps(results, 0)[0]) if s["driver"] is not None]:
            text = "\n".join(summary_of(sweep) for sweep in running)
            if live is not None:
                live.update(Group(*(sweep_table(sweep) for sweep in running)), refresh=True)
            elif text != told:
                typer.echo(visible(text) if len(running) == 1 else "\n".join(visible(line) for line in text.splitlines()))
            told = text
            time.sleep(WATCH_SECONDS)
    typer.echo(visible(f"no sweep {'' if name is None else f'of {name} '}is running in {object_store.display_path(results)}"))
