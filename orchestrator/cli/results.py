"""`results export` and `results import`: a ledger as one file, and back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli.options import AsJson, Results
from orchestrator.cli.output import print_json, version
from orchestrator.errors import UserError
from orchestrator.files.folders import make, need_folder, need_place
from orchestrator.ledger import object_store
from orchestrator.safe_text import log
from orchestrator.specs.positions import nearest, shown
from orchestrator.sweeps.options import RESULTS

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Move results to another machine: one archive, merged there.\n\nExample:  nmt-ablate results export ledger.tar",
)


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar", help="The archive to write; a new file. With --packed, a folder.")],
    results: Results = RESULTS,
    sweep: Annotated[
        list[str] | None, typer.Option("--sweep", help="Only runs of this sweep (as `status` prints it); may be repeated.")
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Also weights, snapshots, and checkpoints of unfinished runs.")] = False,
    packed: Annotated[
        bool, typer.Option("--packed", help="Write two small files per table, which commands read with --results; not for training.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write records, translations, scores, histories and sweeps into one plain tar with a sha256 of each file.

    Runs that a process is working on are left out and named. Corpora, MLflow's files and analyses are not included: they can be rebuilt.

    Example:  nmt-ablate results export ledger.tar --weights
    """
    from orchestrator.lifecycle.transfer import export_ledger, export_packed

    need_folder(results, "--results")
    if packed:
        if weights:
            raise UserError("--packed: packed runs have no weights; expected one of --packed and --weights")
        make(file, "FILE.tar")
        tables, left_out = export_packed(results, file, sweep or [])
        record: dict[str, Any] = {"folder": str(file), "tables": tables}
        line = f"{sum(tables.values())} runs of {len(tables)} tables, packed"
    else:
        need_place(file, "FILE.tar")
        manifest, left_out = export_ledger(results, file, weights=weights, only=sweep or [], version=version())
        record = {"file": str(file), "manifest_sha256": manifest.sha256, "bytes": manifest.size, "files": len(manifest.files)}
        record |= manifest.model_dump(include={"created_by", "runs", "weights"})
        line = f"{manifest.runs} runs, {len(manifest.files)} files, {manifest.size} bytes; manifest sha256 {manifest.sha256}"
    if as_json:
        print_json(record | {"left_out": left_out})
    log(f"{file}: {line}")
    for run in left_out:
        log(f"left out: {run}: a process is at work on it")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar", help="An archive or a packed folder that `results export` wrote.")],
    results: Results = RESULTS,
    on_conflict: Annotated[str, typer.Option("--on-conflict", help="Runs that differ here: refuse, keep (ours).")] = "refuse",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Verify and compare, write nothing.")] = False,
    sha256: Annotated[str | None, typer.Option("--sha256", help="The sha256 that the export printed: refuse any other archive.")] = None,
    max_gb: Annotated[float, typer.Option("--max-gb", min=0.001, max=1e6, help="Refuse more than this, in 10^9 bytes.")] = 200.0,
    as_json: AsJson = False,
) -> None:
    """Merge an archive: absent runs are added, equal runs are left alone, and runs that differ are refused by name.

    Every file is verified first (sha256, keys, digests); an archive with any other kind of member is refused whole. `reconcile` then
    adds the runs to MLflow.

    Example:  nmt-ablate results import ledger.tar --results results
    """
    from orchestrator.lifecycle.transfer import CHOICES, import_ledger

    if on_conflict not in CHOICES:
        raise UserError(f"--on-conflict {shown(on_conflict)}: {nearest(on_conflict, list(CHOICES))}")
    merged = import_ledger(file, results, conflicts=on_conflict, max_bytes=int(max_gb * 10**9), sha256=sha256, dry_run=dry_run)
    if not dry_run:
        object_store.push(results)
    if as_json:
        print_json({"results": object_store.display_path(results), "dry_run": dry_run, **merged.as_json()})
    counts = {
        "added": merged.added,
        "completed": merged.completed,
        "kept as here": merged.kept,
        "the same": merged.same,
    }
    line = ", ".join(f"{len(runs)} {word}" for word, runs in counts.items() if runs)
    log(f"{'would be: ' if dry_run else ''}runs: {line or 'none'}; sweeps: {len(merged.sweeps)}")
    if not dry_run and merged.files:
        log(f"MLflow:  nmt-ablate reconcile --results {shlex.quote(object_store.display_path(results))}")
