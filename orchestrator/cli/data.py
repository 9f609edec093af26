"""`data add|get|check|report|clean|prepare`: corpora by name."""

from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from orchestrator.cli.options import ManyValues, OnceEach, Values
from orchestrator.cli.output import echo, print_json, version
from orchestrator.data.progress import show_bars
from orchestrator.errors import UserError, raise_all
from orchestrator.files.folders import make, make_parent, need_folder
from orchestrator.safe_text import log
from orchestrator.specs.positions import display, shown
from orchestrator.specs.text_form import Form, Pieces
from orchestrator.sweeps.options import CACHE, AsJson, CacheDir, DataDir, Profile, Sets

app = typer.Typer(
    name="data",
    no_args_is_help=True,
    rich_markup_mode=None,
    callback=show_bars,
    help="Corpora: add your own, fetch, check, clean, prepare.\n\nExample:  nmt-ablate data check multi30k-de-en --data-dir DIR",
)


def _text(name: str, help_text: str) -> Any:
    return Option(name, metavar="FILE..", parser=Values.parse, help=help_text)


@app.command(cls=ManyValues)
def add(
    name: Annotated[str, Argument(help="Name of the new corpus, for `data.corpus` in a table's file.")],
    src_lang: Annotated[
        str, Option("--src-lang", metavar="CODE", help="Language of the sources, as in ISO 639 or BCP 47: de, ceb, zh-TW, ..")
    ],
    tgt_lang: Annotated[str, Option("--tgt-lang", metavar="CODE", help="Language of the references; it decides how BLEU tokenises.")],
    train: Annotated[list[Values], _text("--train", "Training text: SRC TGT, or one file with both sides. May be repeated.")],
    valid: Annotated[list[Values], _text("--valid", "Validation text, likewise. May be repeated.")],
    test: Annotated[Values, _text("--test", "Test set: SRC and one or more references, one file, or sacrebleu:SET.")],
    columns: Annotated[
        str | None, Option("--columns", metavar="SRC,TGT", help="Columns of files with both sides: names, or numbers from 1 (.tsv).")
    ] = None,
    text: Annotated[Form | None, Option("--text", help="What the lines are, if not running text.", show_default=False)] = None,
    pieces: Annotated[Pieces | None, Option("--pieces", help="Kind of the subwords in the lines; they are joined.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check your own parallel text and register it as a corpus, in search_spaces/data of the working folder. Plain files stay in place.

    A file with both sides is .tsv, .jsonl, .tmx or .parquet. All but .parquet may be compressed (gzip, bzip2, xz, zstd).
    hub:ID[@REVISION][:CONFIG]:SPLIT is a split of a dataset on the Hugging Face Hub.

    Example:  nmt-ablate data add talks --src-lang ja --tgt-lang en --train a.ja a.en --valid b.ja b.en --test c.ja c.en
    """
    from orchestrator.data import own_corpus
    from orchestrator.data.formats import Columns
    from orchestrator.data.joined import joined
    from orchestrator.specs.bleu_tokenizer import check_installed, tokenizer_of
    from orchestrator.specs.schema import ScoreSpec

    form: dict[str, Any] = {key: str(value) for key, value in (("text", text), ("pieces", pieces)) if value is not None}
    names = tuple(columns.split(",")) if columns else ()
    if columns is not None and (len(names) < 2 or not all(names)):
        raise UserError(f"--columns {shown(columns)}: expected two names or numbers, SRC,TGT")
    chosen = Columns((src_lang, tgt_lang), names)
    with joined({"train": train, "valid": valid, "test": [test]}, chosen) as files:
        path, report = own_corpus.add(name, src_lang, tgt_lang, files, **form)
    if as_json:
        print_json(vars(report) | {"file": str(path)})
    for split, given in (("train", train), ("valid", valid), ("test", [test])):
        if list(map(str, files[split])) != list(given[0]):
            log(f"{split}: written to {' and '.join(map(display, files[split]))}")
    report.log()
    log(f"BLEU of {tgt_lang} is of the tokens of sacreBLEU's {tokenizer_of(ScoreSpec(), tgt_lang)}")
    try:
        check_installed(ScoreSpec(), tgt_lang)
    except UserError as error:
        log(f"warning: {error}")
    log(f"written: {display(path)}")
    log(f"next: nmt-ablate new mine/{name} --corpus {name}")


@app.command(cls=OnceEach)
def get(name: Annotated[str, Argument(help="Name of an entry in search_spaces/data.")], data_dir: DataDir = None) -> None:
    """Fetch the missing files of a corpus, or print which files you must supply and in which layout.

    Example:  nmt-ablate data get iwslt14-de-en --data-dir DIR
    """
    from orchestrator.data import fetch

    written = fetch.get(name, data_dir, log)
    echo(map(str, written))
    log(f"{name}: {len(written)} files written" if written else f"{name}: nothing to fetch")


@app.command(cls=OnceEach)
def check(
    names: Annotated[list[str], Argument(metavar="NAME..", help="Names of entries in search_spaces/data, or of your own.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Check a corpus: missing files, the first fault of each split (encoding, empty lines, unequal counts) and overlap of splits.

    Example:  nmt-ablate data check multi30k-de-en --data-dir DIR
    """
    from orchestrator.data import check
    from orchestrator.specs.corpora import load_entry

    reports = [check.check(load_entry(name), data_dir) for name in names]
    if as_json:
        print_json([vars(report) for report in reports] if len(reports) > 1 else vars(reports[0]))
    for report in reports:
        report.log()
    raise_all(line for report in reports for line in report.problems)


@app.command(cls=OnceEach)
def report(
    name: Annotated[str, Argument(help="Name of a corpus.")],
    data_dir: DataDir = None,
    cache_dir: CacheDir = CACHE,
    to: Annotated[Path | None, Option("--to", metavar="FILE.html", help="The page. Default: NAME.html in the working folder.")] = None,
) -> None:
    """Write an HTML page about the text of a corpus: lengths, ratios, leaks, unknown subwords, and the worst pairs of each kind.

    Example:  nmt-ablate data report multi30k-de-en --data-dir DIR
    """
    from orchestrator.data.quality import measure
    from orchestrator.files import atomic
    from orchestrator.report.page.render import rendered

    need_folder(data_dir, "--data-dir")
    make_parent(page := to or Path(f"{name}.html"), "--to")
    report, found = measure(name, data_dir, cache_dir)
    atomic.write_text(page, rendered("corpus.html", title=f"Corpus {name}", version=version(), charted=True, **found))
    report.log()
    log(f"written: {display(page)}")


_RULES = "max_characters=N, max_ratio=R, copies, other_language, duplicates or leaks; may be repeated, the first that applies counts."


@app.command(cls=OnceEach)
def clean(
    name: Annotated[str, Argument(help="Name of the corpus whose training pairs to filter.")],
    to: Annotated[str, Option("--to", metavar="NEW", help="Name of the new corpus, for `data.corpus` in a table's file.")],
    rules: Annotated[list[str], Option("--rule", metavar="NAME[=VALUE]", help=_RULES)],
    data_dir: DataDir = None,
) -> None:
    """Write a copy of a corpus without the training pairs that break these rules, as a new corpus. Its key contains the rules.

    Example:  nmt-ablate data clean multi30k-de-en --to multi30k-clean --rule max_ratio=3 --rule leaks --data-dir DIR
    """
    from orchestrator.data.clean import clean
    from orchestrator.specs import yaml_file
    from orchestrator.specs.corpora import Rules
    from orchestrator.specs.messages import valid

    need_folder(data_dir, "--data-dir")
    lines = (f"{rule}: {value or 'true'}\n" for rule, _, value in (each.partition("=") for each in rules))
    path, report, removed = clean(name, to, valid(yaml_file.parse("".join(lines), "--rule"), Rules), data_dir)
    report.log()
    log(f"{to}: pairs removed: {', '.join(f'{count:,} by {rule}' for rule, count in removed.items()) or 'none'}")
    log(f"written: {display(path)}")


@app.command(cls=OnceEach)
def prepare(
    target: Annotated[str, Argument(metavar="ROW|TABLE|FILE", help="Rows whose data to prepare; or a corpus, with defaults.")],
    data_dir: DataDir = None,
    cache_dir: CacheDir = CACHE,
    profile: Profile = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Segment and store the text that rows train on, once per content. Runs also do this themselves.

    Example:  nmt-ablate data prepare quickstart/fusion
    """
    from orchestrator.data.check import MAX_UNKNOWN
    from orchestrator.data.prepare import prepare
    from orchestrator.specs.corpora import list_entries
    from orchestrator.specs.rows import resolve
    from orchestrator.specs.schema import DataSpec

    need_folder(data_dir, "--data-dir")
    specs: dict[str, DataSpec] = {"": DataSpec(corpus=target)} if target in list_entries() else {}
    if specs and (sets or profile):
        raise UserError(f"{target}: found a corpus, with --set or --profile; expected a row or a table with them")
    tests = defaultdict[str, dict[str, None]](dict)
    for row in [] if specs else resolve(target, sets=sets, profile=profile):
        if row.spec is not None:
            specs.setdefault(key := row.spec.data.model_dump_json(), row.spec.data)
            tests[key] |= {score.test: None for score in (row.spec.score, *row.also.values())}
    make(cache_dir, "--cache-dir")
    for key, spec in specs.items():
        prepared = prepare(spec, data_dir, cache_dir, verify=True)
        sizes = {"src_size": prepared.src_size, "tgt_size": prepared.tgt_size}
        unknown = {split: prepared.unknown(split) for split in {**prepared.stats["splits"], **tests[key]}}
        if as_json:
            print_json({"corpus": spec.corpus, "key": prepared.key, "path": str(prepared.path), **sizes, "unknown": unknown})
        log(f"{spec.corpus}: vocabularies {prepared.src_size:,} and {prepared.tgt_size:,}, in {prepared.path}")
        for split, (src, tgt) in unknown.items():
            log(f"{spec.corpus} {split}: {src:.2%} of the source's and {tgt:.2%} of the target's tokens are unknown")
            if max(src, tgt) > MAX_UNKNOWN:
                log(f"warning: {spec.corpus}: over {MAX_UNKNOWN:.0%} unknown in {split}; `data check {spec.corpus}` names the characters")
