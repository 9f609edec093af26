"""`status`, `ui`, `reconcile` and `translate`: what runs, and what is made of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import CACHE, RESULTS, AsJson, CacheDir, DataDir, Profile, Results, Seed, Sets, TrackingUri
from orchestrator.ledger import mirrored


def register(app: typer.Typer) -> None:
    for command in (status, translate, ui, reconcile):
        app.command(command.__name__)(command)


def status(
    results: Results = RESULTS,
    address: Annotated[str | None, typer.Option("--address", help="Instead: jobs of the Ray cluster whose dashboard this is.")] = None,
    as_json: AsJson = False,
) -> None:
    """Every sweep in the results folder: who drives it, and how far each run is. With --address: every job that was submitted there.

    Back to the logs of one that runs:  nmt-ablate submit --attach JOB

    Example:  nmt-ablate status --json
    """
    if address is not None:
        from orchestrator.cli.submit import list_jobs

        list_jobs(address, as_json)
        return
    from orchestrator.cli.options import console, emit, need_folder
    from orchestrator.safe_text import visible
    from orchestrator.sweeps.status import sweep_status, sweep_table

    need_folder(results, "--results")
    found = sweep_status(results)
    if as_json:
        emit({"results": mirrored.shown(results), "sweeps": found})
    elif not found:
        typer.echo(visible(f"no sweeps in {mirrored.shown(results)}"))
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
    from orchestrator.cli.options import need_folder
    from orchestrator.cli.translate import translate_stream

    need_folder(data_dir, "--data-dir")
    translate_stream(row, seed=seed, profile=profile, sets=sets, data_dir=data_dir, results=results, cache_dir=cache_dir)


def ui(
    results: Results = RESULTS,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="On 127.0.0.1.")] = 5000,
    tracking_uri: TrackingUri = None,
) -> None:
    """The MLflow UI over the results, on this machine only. Of a tracking server, which has its own UI, the address is told.

    Example:  nmt-ablate ui --port 5001
    """
    from orchestrator.cli.options import need_folder
    from orchestrator.tracking.environment import checked_uri
    from orchestrator.tracking.ui import serve_ui

    need_folder(results, "--results")
    serve_ui(results, port, checked_uri(tracking_uri))


def reconcile(results: Results = RESULTS, tracking_uri: TrackingUri = None, as_json: AsJson = False) -> None:
    """Rebuild MLflow from the ledger, from nothing if need be. What is there already is not written twice.

    Example:  nmt-ablate reconcile --tracking-uri http://mlflow:5000
    """
    from orchestrator.cli.options import console, emit, mirrors, need_folder, note
    from orchestrator.tracking.environment import checked_uri, reason, redact
    from orchestrator.tracking.location import explained
    from orchestrator.tracking.sweeps import check
    from orchestrator.tracking.sweeps import reconcile as rebuild

    need_folder(results, "--results")
    uri = checked_uri(tracking_uri)
    if uri is not None:
        check(Path(results), uri)
    try:
        with console(stderr=True).status("bringing MLflow up to date") as status:
            told = lambda runs: status.update(f"bringing MLflow up to date: {runs} runs written")  # noqa: E731
            counts, problems = rebuild(Path(results), uri, mirrors=mirrors(), progress=told)
    except Exception as error:
        if uri is None:
            raise explained(error, Path(results) / "mlflow.db") or error from error
        note(f"error: MLflow at {redact(uri)}: {reason(error)}")
        raise typer.Exit(1) from error
    if as_json:
        emit({"rows": dict(counts), "problems": problems})
    note(", ".join(f"{count} {state}" for state, count in counts.items()) or "no sweeps")
    for line in problems:
        note(f"warning: {line}")
    if problems:
        raise typer.Exit(1)
