"""`ui` and `reconcile`: MLflow over the ledger."""

from __future__ import annotations

from pathlib import Path

import typer

from orchestrator.cli.commands.rows import published_ledgers
from orchestrator.cli.console import console
from orchestrator.cli.output import print_json
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.safe_text import log
from orchestrator.tracking import sweeps
from orchestrator.tracking.environment import checked_uri, default_uri, reason, redact
from orchestrator.tracking.ui import serve_ui


def ui(results: Path, port: int, tracking_uri: str | None) -> None:
    need_folder(results, "--results")
    serve_ui(results, port, checked_uri(tracking_uri))


def reconcile(results: Path, tracking_uri: str | None, as_json: bool) -> None:
    """Exit code 1 where the server cannot be written, or sweeps cannot be read."""
    need_folder(results, "--results")
    uri = checked_uri(tracking_uri)
    if uri is not None:
        sweeps.check(results, uri)
    try:
        with console(stderr=True).status("updating MLflow") as status:

            def progress(runs: int) -> None:
                status.update(f"updating MLflow: {runs} runs written")

            counts, problems = sweeps.reconcile(results, uri, mirrors=published_ledgers(), progress=progress)
    except UserError:
        raise
    except Exception as error:
        log(f"error: MLflow at {redact(uri or default_uri(results))}: {reason(error)}")
        raise typer.Exit(1) from error
    if as_json:
        print_json({"rows": dict(counts), "problems": problems})
    log(", ".join(f"{count} {state}" for state, count in counts.items()) or "no sweeps")
    for line in problems:
        log(f"warning: {line}")
    if problems:
        raise typer.Exit(1)
