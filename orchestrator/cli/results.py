"""`results add`, `results export` and `results import`: translations of other systems and results of other machines."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from orchestrator.cli.options import OnceEach, Seed, expand_options
from orchestrator.cli.output import print_json
from orchestrator.files.folders import make, need_folder
from orchestrator.ledger import object_store
from orchestrator.safe_text import log
from orchestrator.sweeps.options import RESULTS, AsJson, Results, RowOptions

app = typer.Typer(
    name="results",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Add translations of other systems; move results to another machine.\n\nExample:  nmt-ablate results import from-the-cluster",
)


@app.command("add", cls=OnceEach)
@expand_options()
def add(
    file: Annotated[Path, Argument(metavar="FILE", help="Translations of the test set, one a line.")],
    options: RowOptions,
    row: Annotated[str, Option("--row", help="The row, of kind external: an address or FILE.yaml#row.")],
    seed: Seed = None,
    system: Annotated[str, Option("--system", help='What made them, e.g. "fairseq 0.12.2".')] = "",
    as_json: AsJson = False,
) -> None:
    """Add translations of another system to a row of kind external. They are scored like ours; `table` and `verdict` compare them.

    Example:  nmt-ablate results add fairseq.de --row mine/first/fairseq --seed 1 --system "fairseq 0.12.2"
    """
    from orchestrator.cli.commands.request import Request, only
    from orchestrator.lifecycle import external

    need_folder(options.data_dir, "--data-dir")
    for folder, name in ((options.results, "--results"), (options.cache_dir, "--cache-dir")):
        make(folder, name)
    found = external.add(file, only(row, Request.of(row, options, seed=seed).rows, ("external",)), options, system)
    if as_json:
        print_json(found)
    log(f"{found['id']} seed {found['seed']}: {found['status']}; BLEU {found['bleu']:.2f}, chrF {found['chrf']:.2f}; {found['signature']}")
    object_store.push(options.results)


@app.command("export", cls=OnceEach)
def export(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Where to write; commands read it with --results.")],
    results: Results = RESULTS,
    sweep: Annotated[list[str] | None, Option("--sweep", help="Only runs of this sweep, its search included; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Pack records, translations, scores, histories and sweeps into one Parquet file per table. To move weights too, copy the folder.

    Runs in progress and runs with a damaged text are left out and listed. A damaged text gives exit code 1. Corpora, MLflow's files and
    analyses are not included, because they can be rebuilt.

    Example:  nmt-ablate results export packed-results
    """
    from orchestrator.lifecycle.transfer import export_packed

    need_folder(results, "--results")
    make(folder, "FOLDER")
    tables, live, damaged = export_packed(results, folder, sweep or [])
    if as_json:
        print_json({"folder": str(folder), "tables": tables, "left_out": [*live, *damaged]})
    log(f"{folder}: {sum(tables.values())} runs of {len(tables)} tables, packed")
    log(*(f"left out: {line}" for line in (live | damaged).values()))
    if damaged:
        raise typer.Exit(1)


@app.command("import", cls=OnceEach)
def import_(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Another results folder, or one that `results export` wrote.")],
    results: Results = RESULTS,
    on_conflict: Annotated[Literal["refuse", "keep"], Option("--on-conflict", help="Runs that differ here; keep: ours.")] = "refuse",
    dry_run: Annotated[bool, Option("--dry-run", help="Verify and compare, write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge another results folder: absent runs are added, equal runs stay, and runs that differ are refused by name.

    Every record is verified first (keys, digests). `reconcile` then adds the runs to MLflow.

    Example:  nmt-ablate results import from-the-cluster --results results
    """
    from orchestrator.lifecycle.transfer import import_ledger

    merged = import_ledger(folder, results, keep=on_conflict == "keep", dry_run=dry_run)
    if not dry_run:
        object_store.push(results)
    if as_json:
        print_json({"results": object_store.display_path(results), "dry_run": dry_run, **vars(merged)})
    counts = {"added": merged.added, "completed": merged.completed, "kept as here": merged.kept, "the same": merged.same}
    line = ", ".join(f"{len(runs)} {word}" for word, runs in counts.items() if runs)
    log(f"{'would be: ' if dry_run else ''}runs: {line or 'none'}; sweeps: {len(merged.sweeps)}")
    if not dry_run and merged.files:
        log(f"MLflow:  nmt-ablate reconcile --results {shlex.quote(object_store.display_path(results))}")
