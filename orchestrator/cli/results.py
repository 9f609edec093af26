"""`results export` and `results import`: a ledger as one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import RESULTS, AsJson, Results
from orchestrator.ledger import mirrored

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take results to another machine: one archive, merged there.\n\nExample:  nmt-ablate results export ledger.tar",
)


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar", help="The archive to write; a new file.")],
    results: Results = RESULTS,
    sweep: Annotated[
        list[str] | None, typer.Option("--sweep", help="Only runs of this sweep (as `status` prints it); may be repeated.")
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Also weights, snapshots, and checkpoints of unfinished runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write records, translations, scores, histories and sweeps into one plain tar with a sha256 of each file.

    Runs that a process is at work on are left out and named. Not the corpora, MLflow's files or analyses: those are made again.

    Example:  nmt-ablate results export ledger.tar --weights
    """
    from orchestrator.cli.options import emit, need_folder, note, version
    from orchestrator.files.folders import need_place
    from orchestrator.lifecycle.carry import export_ledger

    need_folder(results, "--results")
    need_place(file, "FILE.tar")
    manifest, left = export_ledger(results, file, weights=weights, only=sweep or (), version=version())
    if as_json:
        about = {"file": str(file), "manifest_sha256": manifest.sha256, "bytes": manifest.size, "files": len(manifest.files)}
        emit(about | manifest.about | {"left_out": left})
    note(f"{file}: {manifest.about['runs']} runs, {len(manifest.files)} files, {manifest.size} bytes; manifest sha256 {manifest.sha256}")
    for run in left:
        note(f"left out: {run}: a process is at work on it")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar", help="An archive that `results export` wrote.")],
    results: Results = RESULTS,
    on_conflict: Annotated[
        str, typer.Option("--on-conflict", help="Runs that differ here: refuse, keep (ours), replace (by theirs).")
    ] = "refuse",
    dry: Annotated[bool, typer.Option("--dry-run", help="Verify and compare, write nothing.")] = False,
    sha256: Annotated[str | None, typer.Option("--sha256", help="What the export said: refuse another archive.")] = None,
    max_gb: Annotated[float, typer.Option("--max-gb", min=0.001, max=1e6, help="Refuse more than this, in 10^9 bytes.")] = 200.0,
    as_json: AsJson = False,
) -> None:
    """Merge an archive: what is absent is added, what is the same is left, what differs is refused with its name.

    Every file is verified first (sha256, keys, digests); an archive with any other kind of member is refused whole. `reconcile` then
    brings the runs into MLflow.

    Example:  nmt-ablate results import ledger.tar --results results
    """
    from orchestrator.cli.options import emit, note
    from orchestrator.errors import UserError
    from orchestrator.lifecycle.carry import CHOICES, import_ledger
    from orchestrator.specs.positions import nearest, shown

    if on_conflict not in CHOICES:
        raise UserError(f"--on-conflict {shown(on_conflict)}: {nearest(on_conflict, list(CHOICES))}")
    found = import_ledger(file, results, conflicts=on_conflict, max_bytes=int(max_gb * 10**9), sha256=sha256, dry=dry)
    if not dry:
        mirrored.push(results)
    if as_json:
        emit({"results": mirrored.shown(results), "dry_run": dry, **found.as_json()})
    counts = {
        "added": found.added,
        "completed": found.completed,
        "replaced": found.replaced,
        "kept as here": found.kept,
        "the same": found.same,
    }
    told = ", ".join(f"{len(runs)} {word}" for word, runs in counts.items() if runs)
    note(f"{'would be: ' if dry else ''}runs: {told or 'none'}; sweeps: {len(found.sweeps)}")
    if not dry and found.files:
        note(f"MLflow:  nmt-ablate reconcile --results {mirrored.shown(results)}")
