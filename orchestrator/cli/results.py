"""`results export` and `results import`: a ledger as one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import AsJson, Results
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
    from orchestrator.cli.commands.results import export

    export(file, results, sweep or [], weights=weights, packed=packed, as_json=as_json)


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
    from orchestrator.cli.commands.results import import_

    import_(file, results, on_conflict, int(max_gb * 10**9), sha256, dry_run=dry_run, as_json=as_json)
