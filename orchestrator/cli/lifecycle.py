"""`status`, `gc`, `ui` and `reconcile`: runs and their files."""

from typing import Annotated

import typer
from typer import Argument, Option

from orchestrator.cli.output import echo, print_json
from orchestrator.errors import CommandError, UserError
from orchestrator.files.folders import make, need_folder
from orchestrator.ledger import object_store
from orchestrator.paths import published_ledgers
from orchestrator.safe_text import log
from orchestrator.specs.positions import nearest, shown
from orchestrator.sweeps.options import RESULTS, AsJson, Results, RowOptions, TrackingUri


def status(
    name: Annotated[str | None, Argument(help="Show only sweeps of this table or row, or of this name.")] = None,
    results: Results = RESULTS,
    every: Annotated[bool, Option("--all", help="Every sweep and run. Default: sweeps that run and the last ten, 50 runs each.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the running and the latest sweeps of the results folder: their runs, losses, speeds and BLEU, and when they will end.

    Example:  nmt-ablate status --all
    """
    from orchestrator.cli.output import console
    from orchestrator.ledger.results import Ledger
    from orchestrator.sweeps.names import as_address
    from orchestrator.sweeps.status import first_to_see, recent_sweeps, runs_table, sweep_status
    from orchestrator.tables import counted

    if results != RESULTS:
        need_folder(results, "--results")
    place, name = object_store.display_path(results), None if name is None else as_address(name)
    paths, more = (None, 0) if every or name is not None else recent_sweeps(results)
    ledger = Ledger(results, published_ledgers())
    sweeps, hidden = sweep_status(ledger, name=name, paths=paths), 0
    if as_json:
        print_json({"results": place, "sweeps": [sweep.as_json() for sweep in sweeps], "more": more})
    elif name is not None and not sweeps:
        known = [sweep.name for sweep in sweep_status(ledger, paths=recent_sweeps(results)[0])]
        raise UserError(f"{shown(name)}: no sweep of it in {place}; {nearest(name, known)}")
    elif not sweeps:
        echo([f"no sweeps in {place} yet; the first one:  nmt-ablate sweep search_spaces/quickstart.yaml"])
    else:
        for sweep in sweeps:
            runs = sweep.runs if every or name is not None else first_to_see(sweep.runs)
            console().print(runs_table(runs, sweep.summary))
            hidden += len(sweep.runs) - len(runs)
    if more or hidden:
        counts = [counted(number, what) for number, what in ((more, "earlier sweep"), (hidden, "run")) if number]
        command = f"nmt-ablate status{RowOptions(results=results).arguments}"
        log(f"not shown: {' and '.join(counts)};  {command} --all, or with a table's address")


def ui(
    results: Results = RESULTS,
    port: Annotated[int, Option("--port", min=1, max=65535, help="On 127.0.0.1.")] = 5000,
    tracking_uri: TrackingUri = None,
) -> None:
    """Serve the MLflow UI for the results, on this machine only. A tracking server has its own UI: then print its address.

    Example:  nmt-ablate ui --port 5001
    """
    from orchestrator.tracking.environment import checked_uri
    from orchestrator.tracking.ui import serve_ui

    need_folder(results, "--results")
    serve_ui(results, port, checked_uri(tracking_uri), mirrors=published_ledgers())


def reconcile(results: Results = RESULTS, tracking_uri: TrackingUri = None, as_json: AsJson = False) -> None:
    """Rebuild MLflow from the ledger, from scratch if necessary. Existing runs are not written twice.

    Example:  nmt-ablate reconcile --tracking-uri http://mlflow:5000
    """
    from orchestrator.cli.output import console
    from orchestrator.tracking import sweeps
    from orchestrator.tracking.environment import checked_uri, default_uri, reason, redact

    need_folder(results, "--results")
    make(results, "--results")
    uri = checked_uri(tracking_uri)
    try:
        with console(stderr=True).status("updating MLflow") as status:
            progress = lambda runs: status.update(f"updating MLflow: {runs} runs written")  # noqa: E731
            counts, problems = sweeps.reconcile(results, uri, mirrors=published_ledgers(), progress=progress)
    except UserError:
        raise
    except Exception as error:
        raise CommandError(f"MLflow at {redact(uri or default_uri(results))}: {reason(error)}") from error
    if as_json:
        print_json({"rows": dict(counts), "problems": problems})
    log(", ".join(f"{count} {state}" for state, count in counts.items()) or "no sweeps")
    log(*(f"warning: {line}" for line in problems))
    if problems:
        raise typer.Exit(1)


def gc(
    results: Results = RESULTS,
    delete: Annotated[bool, Option("--delete", "--yes", help="Delete. Default: only list what would be deleted.")] = False,
    weights: Annotated[bool, Option("--weights", help="Also weights of scored rows, which translate, analyse and export need.")] = False,
    as_json: AsJson = False,
) -> None:
    """Free space: delete checkpoints of finished runs, tensors of runs that no sweep names any more, and leftovers.

    Never deleted: the ledger's JSON, texts and specs; files of live processes and sweeps; checkpoints that an unfinished run resumes from;
    weights from which another row of a sweep starts. The second table names the rule that keeps each file.

    Example:  nmt-ablate gc --results results
    """
    from rich.filesize import decimal

    from orchestrator.cli.output import console
    from orchestrator.lifecycle import garbage
    from orchestrator.tables import filled_table

    need_folder(results, "--results")
    make(results if delete else None, "--results")
    removed, kept, notes = garbage.collect(results, weights=weights, delete=delete)
    size = sum(item.size for item in removed)
    if as_json:
        record = {"results": object_store.display_path(results), "deleted": delete, "bytes": size, "notes": notes}
        print_json(record | {"items": [item.as_json() for item in removed], "kept": [item.as_json() for item in kept]})
    else:
        for title, word, items in (("removed" if delete else "would be removed", "kind", removed), ("kept", "rule", kept)):
            lines = [  # what: the folder of the run or kind, and the name
                {"what": "/".join(i.path.parts[-2:]), word: i.rule or i.kind, "size": decimal(i.size), "row": i.row, "why": i.why}
                for i in items
            ]
            if lines:
                console().print(filled_table(lines, title=title, numeric=("size",)))
    log(*(f"warning: {line}" for line in notes))
    if delete:
        log(f"removed {len(removed)} things, {decimal(size)}")
    else:
        log(f"{len(removed)} things, {decimal(size)}, would go; nothing was changed" + ("; --delete removes them" if removed else ""))
