"""`status`, `ui`, `reconcile` and `translate`: what runs, and what is made of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator import attached
from orchestrator.cli_common import CACHE, RESULTS, AsJson, CacheDir, DataDir, Profile, Results, Seed, Sets


def register(app: typer.Typer) -> None:
    for command in (status, translate, ui, reconcile):
        app.command(command.__name__)(command)


def status(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """Every sweep in the results folder: who drives it, and how far each run is.

    Example:  nmt-ablate status --json
    """
    from orchestrator.cli_common import console, emit, need_folder
    from orchestrator.sweep_status import sweep_status, sweep_table

    need_folder(results, "--results")
    found = sweep_status(results)
    if as_json:
        emit({"results": attached.shown(results), "sweeps": found})
    elif not found:
        typer.echo(f"no sweeps in {attached.shown(results)}")
    else:
        for sweep in found:
            console().print(sweep_table(sweep))


def translate(
    row: Annotated[str, typer.Argument(metavar="ROW|FILE", help="A row that has been trained.")],
    seed: Seed = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    cache_dir: CacheDir = CACHE,
) -> None:
    """Translate stdin to stdout, line by line, with a row's trained model.

    Example:  nmt-ablate translate sweeps/multi30k-first/baseline --data-dir DIR < source.de > target.en
    """
    from orchestrator.cli_common import need_folder
    from orchestrator.cli_translate import translate_stream

    need_folder(data_dir, "--data-dir")
    translate_stream(row, seed=seed, profile=profile, sets=sets, data_dir=data_dir, results=results, cache_dir=cache_dir)


def ui(
    results: Results = RESULTS,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="On 127.0.0.1.")] = 5000,
) -> None:
    """The MLflow UI over the results, on this machine only.

    Example:  nmt-ablate ui --port 5001
    """
    from orchestrator.cli_common import need_folder
    from orchestrator.tracking_ui import serve_ui

    need_folder(results, "--results")
    serve_ui(results, port)


def reconcile(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """Rebuild MLflow from the ledger, from nothing if need be.

    Example:  nmt-ablate reconcile
    """
    from orchestrator.cli_common import emit, mirrors, need_folder, note
    from orchestrator.tracking import reconcile as rebuild

    need_folder(results, "--results")
    counts, problems = rebuild(Path(results), mirrors=mirrors())
    if as_json:
        emit({"rows": dict(counts), "problems": problems})
    note(", ".join(f"{count} {state}" for state, count in counts.items()) or "no sweeps")
    for line in problems:
        note(f"warning: {line}")
    if problems:
        raise typer.Exit(1)
