"""`data add`, `data get`, `data check` and `data prepare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from orchestrator.cli.output import print_json
from orchestrator.data import fetch, own_corpus, senteval
from orchestrator.data.check import check as check_corpus
from orchestrator.data.check import problems_of
from orchestrator.data.corpus import inspect
from orchestrator.data.prepare import prepare as prepare_corpus
from orchestrator.errors import UserError
from orchestrator.files.folders import make, need_folder
from orchestrator.files.no_file import no_file
from orchestrator.safe_text import log, visible
from orchestrator.specs.bleu_tokenizer import check_installed, tokenizer_of
from orchestrator.specs.corpora import list_entries, load_entry
from orchestrator.specs.positions import display
from orchestrator.specs.rows import resolve
from orchestrator.specs.schema import DataSpec, ScoreSpec


def add(name: str, src: str, tgt: str, files: Mapping[str, Sequence[Path]], as_json: bool) -> None:
    path, report = own_corpus.add(name, src, tgt, files)
    found = report.to_json()
    if as_json:
        print_json(found | {"file": str(path)})
    _print_report(found)
    log(f"BLEU of {tgt} is of the tokens of sacreBLEU's {tokenizer_of(ScoreSpec(), tgt)}")
    try:
        check_installed(ScoreSpec(), tgt)
    except UserError as error:
        log(f"warning: {error}")
    log(f"written: {display(path)}")
    log(f"next: nmt-ablate new mine/{name} --corpus {name}")


def get(name: str, data_dir: Path | None) -> None:
    written = fetch.get(name, data_dir, log)
    for path in written:
        typer.echo(visible(str(path)))
    log(f"{name}: {len(written)} files written" if written else f"{name}: nothing to fetch")


def check(names: list[str], data_dir: Path | None, as_json: bool) -> None:
    """Checks corpora by name, or parallel files by path. UserError with everything that is wrong."""
    entries, paths = (*list_entries(), senteval.NAME), [Path(name) for name in names]
    if any("/" in str(path) or path.is_file() or (str(path) not in entries and no_file(path)) for path in paths):
        reports = [_check_files(paths)]
    else:
        reports = [
            senteval.check(data_dir) if name == senteval.NAME else check_corpus(load_entry(name), data_dir).to_json() for name in names
        ]
    if as_json:
        print_json(reports if len(reports) > 1 else reports[0])
    for report in reports:
        _print_report(report)
    problems = [line for report in reports for line in report["problems"]]
    if problems:
        raise UserError(*problems)


def _print_report(report: dict[str, Any]) -> None:
    for split, size in report["splits"].items():
        log(f"{report['corpus']} {split}: {', '.join(f'{name} {value:,}' for name, value in size.items())}")
    for line in report["warnings"]:
        log(f"warning: {line}")


def _check_files(files: list[Path]) -> dict[str, Any]:
    """The report of parallel files, which must have equally many lines."""
    reports = [inspect(path) for path in files]
    splits = {str(r.path): {"lines": r.lines, "words": r.words, "longest": r.longest} for r in reports}
    empty = [report.empty_message() for report in reports if report.empty]
    return {"corpus": "files", "splits": splits, "problems": problems_of(reports), "warnings": empty}


def prepare(target: str, data_dir: Path | None, cache_dir: Path, profile: str | None, sets: list[str] | None, as_json: bool) -> None:
    need_folder(data_dir, "--data-dir")
    if target in list_entries():
        specs = [DataSpec(corpus=target)]
    else:
        rows = resolve(target, sets=sets, profile=profile)
        specs = list({row.spec.data.model_dump_json(): row.spec.data for row in rows if row.spec is not None}.values())
    make(cache_dir, "--cache-dir")
    for spec in specs:
        prepared = prepare_corpus(spec, data_dir, cache_dir, verify=True)
        sizes = {"src_size": prepared.src_size, "tgt_size": prepared.tgt_size}
        if as_json:
            print_json({"corpus": spec.corpus, "key": prepared.key, "path": str(prepared.path), **sizes})
        log(f"{spec.corpus}: vocabularies {prepared.src_size:,} and {prepared.tgt_size:,}, in {prepared.path}")
