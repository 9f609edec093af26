"""`status`, `stop`, `gc`, `translate`, `export`, `repro`, `ui` and `reconcile`: runs and their results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import AsJson, Results, Seed, TrackingUri, expand_options
from orchestrator.cli.output import print_json
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder, new_folder, parser
from orchestrator.ledger import object_store
from orchestrator.safe_text import log
from orchestrator.sweeps.options import RESULTS, RowOptions


def status(
    name: Annotated[str | None, typer.Argument(help="Show only sweeps of this table or row, or of this name.")] = None,
    results: Results = RESULTS,
    every: Annotated[bool, typer.Option("--all", help="Every sweep. Default: those that run and the last ten.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show the running sweeps until they end (Ctrl-C leaves them alone).")] = False,
    as_json: AsJson = False,
) -> None:
    """The running and the last sweeps of the results folder: their runs, losses, speeds and BLEU, and when they will end.

    Example:  nmt-ablate status --watch
    """
    from orchestrator.cli.commands.status import status

    status(name, results, every=every, as_json=as_json, watch=watch)


@expand_options()
def translate(
    row: Annotated[str, typer.Argument(metavar="ROW|FILE", help="A row that has been trained.")],
    options: RowOptions,
    seed: Seed = None,
) -> None:
    """Translate stdin to stdout, line by line, with a row's trained model.

    Example:  nmt-ablate translate sweeps/multi30k-first/baseline --data-dir DIR < source.de > target.en
    """
    from orchestrator.cli.commands.rows import resolve_one
    from orchestrator.decoding.translate import lines_of
    from orchestrator.lifecycle.translator import load_translator

    need_folder(options.data_dir, "--data-dir")
    translator = load_translator(resolve_one(row, seed, options), options)
    for line in translator.translate(lines_of(sys.stdin.buffer.read()), log):
        sys.stdout.write(line + "\n")


def ui(
    results: Results = RESULTS,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="On 127.0.0.1.")] = 5000,
    tracking_uri: TrackingUri = None,
) -> None:
    """Serve the MLflow UI over the results, on this machine only. For a tracking server, which has its own UI, print its address.

    Example:  nmt-ablate ui --port 5001
    """
    from orchestrator.tracking.environment import checked_uri
    from orchestrator.tracking.ui import serve_ui

    need_folder(results, "--results")
    serve_ui(results, port, checked_uri(tracking_uri))


def reconcile(results: Results = RESULTS, tracking_uri: TrackingUri = None, as_json: AsJson = False) -> None:
    """Rebuild MLflow from the ledger, from scratch if necessary. Runs that are there already are not written twice.

    Example:  nmt-ablate reconcile --tracking-uri http://mlflow:5000
    """
    from orchestrator.cli.commands.rows import published_ledgers
    from orchestrator.cli.output import console
    from orchestrator.tracking import sweeps
    from orchestrator.tracking.environment import checked_uri, default_uri, reason, redact

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


def stop(
    name: Annotated[
        str | None,
        typer.Argument(help="A table or row, a sweep as `status` prints it, row:seed or a train key. Default: the only running sweep."),
    ] = None,
    results: Results = RESULTS,
    every: Annotated[bool, typer.Option("--all", help="Every running sweep of the folder, or of NAME.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Send the signal twice: end at once and lose work since the last checkpoint.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0, max=86400, help="Seconds to wait for the end; 0: only send it.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Ask the process of a sweep or run to save and end (SIGTERM, once), and wait for it. A row ends with its whole sweep.

    Only a process of this machine that holds the lock is signalled. It is no error if nothing runs. Exit code 1: signalled, still running.

    Example:  nmt-ablate stop quickstart/fusion
    """
    from orchestrator.lifecycle import stopping
    from orchestrator.sweeps.names import as_address

    need_folder(results, "--results")
    sweeps = stopping.stop(results, None if name is None else as_address(name), every=every, now=now, timeout=timeout)
    if as_json:
        print_json({"results": str(results), "stopped": [sweep.as_json() for sweep in sweeps]})
    for sweep in sweeps:
        for line in sweep.lines():
            log(line)
    if not sweeps:
        log(f"nothing runs in {results}")
    if timeout > 0 and any(sweep.action == "stopping" for sweep in sweeps):
        raise typer.Exit(1)


def gc(
    results: Results = RESULTS,
    delete: Annotated[bool, typer.Option("--delete", "--yes", help="Delete. Default: only list what would be deleted.")] = False,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also weights and snapshots of finished, scored rows that no other row or analysis needs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Free space: checkpoints of finished runs, tensors of runs that no sweep names any more, leftovers, locks of dead processes.

    Never deleted: the ledger's JSON, texts and specs; files of live processes and sweeps; what an unfinished run resumes from; what
    another row, a translation or an analysis needs. The second table names the rule that keeps each file.

    Example:  nmt-ablate gc --results results
    """
    from rich.filesize import decimal

    from orchestrator.cli.output import console
    from orchestrator.lifecycle import garbage, references
    from orchestrator.lifecycle.collect import collect
    from orchestrator.tables import cell, make_table

    need_folder(results, "--results")
    referenced = references.of_tables()
    plan = garbage.find(results, weights=weights, references=referenced)
    removed, kept = plan.items, plan.kept
    if delete:
        removed, late = collect(results, plan, weights=weights, references=referenced)
        kept = [*plan.kept, *late]
    size = sum(item.size for item in removed)
    if as_json:
        record = {"results": object_store.display_path(results), "deleted": delete, "bytes": size, "notes": plan.notes}
        print_json(record | {"items": [item.as_json() for item in removed], "kept": [item.as_json() for item in kept]})
    else:
        gone = [(i, i.kind) for i in removed]
        for title, word, items in (
            ("removed" if delete else "would be removed", "kind", gone),
            ("kept", "rule", [(i, i.rule) for i in kept]),
        ):
            table = make_table(("what", word, "size", "row", "why"), title=title, numeric=("size",))
            for i, why in items:  # the folder of the run or kind, and the name
                table.add_row(cell("/".join(i.path.parts[-2:])), why, decimal(i.size), cell(i.row), cell(i.why))
            if items:
                console().print(table)
    for line in plan.notes:
        log(f"warning: {line}")
    if delete:
        log(f"removed {len(removed)} things, {decimal(size)}")
    else:
        log(f"{len(removed)} things, {decimal(size)}, would go; nothing was changed" + ("; --delete removes them" if removed else ""))


@expand_options()
def export(
    row: Annotated[str, typer.Argument(metavar="ROW|FILE", help="A row that has been trained.")],
    to: Annotated[Path, typer.Option("--to", parser=parser("--to"), help="Folder to create; new or empty.")],
    options: RowOptions,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """A trained row as a folder that translates by itself: weights, vocabulary, config, capsule, model card, script and code.

    It gives the same words as `translate` on an equal machine, and needs torch but no part of this program.

    Example:  nmt-ablate export sweeps/multi30k-first/baseline --data-dir DIR --to baseline-model
    """
    from orchestrator.cli.commands.rows import open_ledger, resolve_one
    from orchestrator.data.prepare import prepare
    from orchestrator.lifecycle.export_row import export_row
    from orchestrator.lifecycle.translator import task_of

    need_folder(options.data_dir, "--data-dir")
    need_folder(options.results, "--results")
    new_folder(to, "--to")
    found = resolve_one(row, seed, options)
    assert found.spec is not None
    task = task_of(found, options)
    prepared = prepare(found.spec.data, options.data_dir, options.cache_dir)
    exported = export_row(found, task, prepared, open_ledger(options.results), to)
    if as_json:
        record = {"folder": str(to), "id": found.id, "seed": task.seed, "weights_sha256": exported.weights_sha256, "files": exported.files}
        print_json(record | {"scores": exported.metadata["scores"], "keys": task.keys.as_dict()})
    log(f"{to}: {len(exported.files)} files, {sum(exported.files.values())} bytes; weights {exported.weights_sha256}")
    log(f"try:  python {to / 'translate.py'} < source.txt")


@expand_options()
def repro(
    target: Annotated[str, typer.Argument(metavar="ROW|FILE|KEY", help="A finished row, or the train key of a run (12 digits or more).")],
    options: RowOptions,
    seed: Seed = None,
    into: Annotated[
        Path | None,
        typer.Option("--into", parser=parser("--into"), help="Folder to run in and keep: new, or of an interrupted repro of the same run."),
    ] = None,
    tolerance_bleu: Annotated[float, typer.Option("--tolerance-bleu", min=0, help="BLEU points, where bits are not promised.")] = 0.5,
    tolerance_nll: Annotated[float, typer.Option("--tolerance-nll", min=0, help="Nats per token, where bits are not promised.")] = 0.02,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 for anything but the same bits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a recorded row again from its spec, in a fresh folder, with the rows it starts from, and compare with what was recorded.

    Verdicts: `same bits` (exit 0), expected at equal code, versions, device and threads; `within tolerance` (0) where the capsules
    differ; `bits differ` (1) where the capsules do not explain it; `outside tolerance` (1). Differing parts of the capsule are printed.

    Example:  nmt-ablate repro quickstart/fusion/baseline --seed 2
    """
    from orchestrator.cli.commands.repro import repro

    repro(target, seed, options, into, (tolerance_bleu, tolerance_nll), strict=strict, as_json=as_json)
