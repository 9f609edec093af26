"""`status`: sweeps of a results folder. Nothing here loads torch or Ray."""

from __future__ import annotations

from pathlib import Path

import typer

from orchestrator.cli.console import console
from orchestrator.cli.output import print_json
from orchestrator.files.folders import need_folder
from orchestrator.ledger import object_store
from orchestrator.safe_text import visible
from orchestrator.sweeps.status import sweep_status, sweep_table


def status(results: Path, as_json: bool) -> None:
    need_folder(results, "--results")
    sweeps = sweep_status(results)
    if as_json:
        print_json({"results": object_store.display_path(results), "sweeps": sweeps})
    elif not sweeps:
        typer.echo(visible(f"no sweeps in {object_store.display_path(results)}"))
    else:
        for sweep in sweeps:
            console().print(sweep_table(sweep))
