"""`data get|check|prepare`: corpora by name."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli.options import AsJson, CacheDir, DataDir, Profile, Sets
from orchestrator.sweeps.options import CACHE

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
    """Fetch the missing files of a corpus, or print which files you must supply and in which layout.

    Example:  nmt-ablate data get iwslt14-de-en --data-dir DIR
    """
    from orchestrator.cli.commands.data import get

    get(name, data_dir)


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(metavar="NAME|FILE..", help="An entry, or parallel files with equally many lines.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Everything that is wrong with a corpus: missing files, encoding, empty lines, unequal counts, overlap of splits.

    Example:  nmt-ablate data check multi30k-de-en --data-dir DIR
    """
    from orchestrator.cli.commands.data import check

    check(names, data_dir, as_json)


@app.command()
def prepare(
    target: Annotated[str, typer.Argument(metavar="ROW|TABLE|FILE", help="Rows whose data to prepare; or a corpus, with defaults.")],
    data_dir: DataDir = None,
    cache_dir: CacheDir = CACHE,
    profile: Profile = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Segment and store the text that rows train on, once for each content. Runs do this by themselves.

    Example:  nmt-ablate data prepare quickstart/fusion
    """
    from orchestrator.cli.commands.data import prepare

    prepare(target, data_dir, cache_dir, profile, sets, as_json)
