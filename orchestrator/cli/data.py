"""`data add|get|check|prepare`: corpora by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import AsJson, CacheDir, DataDir, Profile, Sets
from orchestrator.sweeps.options import CACHE

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Corpora: add your own, fetch, check, prepare.\n\nExample:  nmt-ablate data check multi30k-de-en --data-dir DIR",
)


Pair = tuple[Path, Path]


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the new corpus, for `data.corpus` in a table's file.")],
    src_lang: Annotated[str, typer.Option("--src-lang", metavar="CODE", help="Language of the sources, as in ISO 639-1: de, ja, zh, ..")],
    tgt_lang: Annotated[str, typer.Option("--tgt-lang", metavar="CODE", help="Language of the references; it decides how BLEU tokenises.")],
    train: Annotated[Pair, typer.Option("--train", metavar="SRC TGT", help="Training text: parallel files, one sentence a line.")],
    valid: Annotated[Pair, typer.Option("--valid", metavar="SRC TGT", help="Validation text.")],
    test: Annotated[Pair, typer.Option("--test", metavar="SRC TGT", help="Test set.")],
    as_json: AsJson = False,
) -> None:
    """Check parallel files of your own and give them a name, in search_spaces/data of the working folder. The files stay where they are.

    Example:  nmt-ablate data add talks --src-lang ja --tgt-lang en --train a.ja a.en --valid b.ja b.en --test c.ja c.en
    """
    from orchestrator.cli.commands.data import add

    add(name, src_lang, tgt_lang, {"train": train, "valid": valid, "test": test}, as_json)


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
