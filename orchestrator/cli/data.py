"""`data get|prepare|check`: corpora by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli.options import CACHE, AsJson, CacheDir, DataDir, Profile, Sets

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Corpora: fetch, check, prepare.\n\nExample:  nmt-ablate data check multi30k-de-en --data-dir DIR",
)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="Name of an entry in search_spaces/data, or senteval-probing.")],
    data_dir: DataDir = None,
) -> None:
    """Fetch the files of a corpus that are not there yet, or say what you must supply and in which layout.

    Example:  nmt-ablate data get iwslt14-de-en --data-dir DIR
    """
    from orchestrator.cli.options import note
    from orchestrator.data.fetch import get as fetch
    from orchestrator.safe_text import visible

    written = fetch(name, data_dir, note)
    for path in written:
        typer.echo(visible(str(path)))
    note(f"{name}: {len(written)} files written" if written else f"{name}: nothing to fetch")


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(metavar="NAME|FILE..", help="An entry, or parallel files that should fit line by line.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Everything that is wrong with a corpus: missing files, encoding, empty lines, unequal counts, overlap of splits.

    Example:  nmt-ablate data check multi30k-de-en --data-dir DIR
    """
    from orchestrator.cli.options import emit, note
    from orchestrator.data.senteval import NAME
    from orchestrator.errors import UserError
    from orchestrator.files.no_file import no_file
    from orchestrator.specs.corpora import list_entries

    known, paths = (*list_entries(), NAME), [Path(name) for name in names]
    if any("/" in str(path) or path.is_file() or (str(path) not in known and no_file(path)) for path in paths):
        reports = [_check_files(paths)]
    else:
        from orchestrator.data.check import check as look
        from orchestrator.data.senteval_get import check as probing
        from orchestrator.specs.corpora import load_entry

        reports = [probing(data_dir) if name == NAME else look(load_entry(name), data_dir).to_json() for name in names]
    if as_json:
        emit(reports if len(reports) > 1 else reports[0])
    for report in reports:
        for split, size in report["splits"].items():
            note(f"{report['corpus']} {split}: {', '.join(f'{name} {value:,}' for name, value in size.items())}")
        for line in report["warnings"]:
            note(f"warning: {line}")
    problems = [line for report in reports for line in report["problems"]]
    if problems:
        raise UserError(*problems)


def _check_files(files: list[Path]) -> dict[str, Any]:
    """Files that should have equally many lines, by themselves."""
    from orchestrator.data import alike
    from orchestrator.data.corpus import inspect, unequal

    reports = [inspect(path) for path in files]
    problems = [*(line for report in reports for line in report.errors), *alike.empty(reports)]
    counts = [report.lines for report in reports]
    if not problems and len(set(counts)) > 1:
        problems.append(unequal(files, counts))
    if not problems:
        problems += alike.sides(files)
    splits = {str(r.path): {"lines": r.lines, "words": r.words, "longest": r.longest} for r in reports}
    return {"corpus": "files", "splits": splits, "problems": problems, "warnings": [r.empty_message() for r in reports if r.empty]}


@app.command()
def prepare(
    target: Annotated[str, typer.Argument(metavar="ROW|TABLE|FILE", help="Whose data to prepare; or a corpus, with default processing.")],
    data_dir: DataDir = None,
    cache_dir: CacheDir = CACHE,
    profile: Profile = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Segment and store the text that rows train on, once for each content. Runs do this by themselves.

    Example:  nmt-ablate data prepare quickstart/fusion
    """
    from orchestrator.cli.options import emit, need_folder, note
    from orchestrator.data.prepare import prepare as build
    from orchestrator.files.folders import make
    from orchestrator.specs.corpora import list_entries
    from orchestrator.specs.rows import resolve
    from orchestrator.specs.schema import DataSpec

    need_folder(data_dir, "--data-dir")
    if target in list_entries():
        wanted = [DataSpec(corpus=target)]
    else:
        rows = resolve(target, sets=sets, profile=profile)
        wanted = list({row.spec.data.model_dump_json(): row.spec.data for row in rows if row.spec is not None}.values())
    make(cache_dir, "--cache-dir")
    for data in wanted:
        ready = build(data, data_dir, cache_dir)
        if as_json:
            emit({"corpus": data.corpus, "key": ready.key, "path": str(ready.path), "src_size": ready.src_size, "tgt_size": ready.tgt_size})
        note(f"{data.corpus}: vocabularies {ready.src_size:,} and {ready.tgt_size:,}, in {ready.path}")
