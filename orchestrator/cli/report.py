"""`analyse`, `table`, `report`, `verdict`, `translate`, `export` and `repro`: commands on finished runs."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from orchestrator.cli.options import Baseline, Seed, expand_options
from orchestrator.cli.output import print_json
from orchestrator.errors import UserError
from orchestrator.files.folders import make_parent, need_folder
from orchestrator.safe_text import log
from orchestrator.specs.analyses import KINDS
from orchestrator.sweeps.options import AsJson, NoTracking, RowOptions, TrackingUri, folder

Trained = Annotated[str, Argument(metavar="ROW|FILE", help="A row that has been trained.")]
Table = Annotated[str, Argument(metavar="TABLE", help="paper/table, rows of it (paper/table/row1,row5), FILE.yaml, or a folder.")]


@expand_options()
def analyse(
    targets: Annotated[list[str], Argument(metavar="TARGET..", help="Rows, tables, files or folders of search_spaces.")],
    options: RowOptions,
    kind: Annotated[str | None, Option("--kind", help=f"One of {', '.join(KINDS)}; default: what the rows name.")] = None,
    settings: Annotated[list[str] | None, Option("--option", metavar="KEY=VALUE", help="Option, as edges=15,30; may be repeated.")] = None,
    seed: Seed = None,
    out: Annotated[Path | None, folder("--out", "Folder of the files; default RESULTS/analyses/NAME.")] = None,
    no_tracking: NoTracking = False,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
) -> None:
    """Analyse trained rows: data as JSON and CSV, figures as PNG, SVG and PDF. Rows without a run are listed and left out.

    Example:  nmt-ablate analyse dou2018/fig4 --profile smoke
    """
    from orchestrator.cli.commands.analyse import analyse

    outputs: dict[str, Any] = {"out": out, "tracking": not no_tracking, "tracking_uri": tracking_uri}
    analyse(targets, kind, settings or [], 1 if seed is None else seed, options, as_json=as_json, **outputs)


@expand_options("controls", "tune_with", "ladder")
def table(
    target: Table,
    options: RowOptions,
    form: Annotated[Literal["terminal", "md", "json", "latex"] | None, Option("--format", help="Default: terminal; piped: md.")] = None,
    columns: Annotated[
        str | None, Option("--columns", metavar="row,bleu,..", help="In this order, or `all`. Default: the filled; fewer in LaTeX.")
    ] = None,
    baseline: Baseline = None,
    as_json: AsJson = False,
) -> None:
    """Print a paper's table with its numbers beside ours. Rows that did not run are marked; stopped rows show no figure.

    Differences have an interval over other seeds and other sentences, and a verdict on the paper's claim. Both need at least two seeds.

    Example:  nmt-ablate table dou2018/table1 --format md
    """
    from orchestrator.cli.commands.table import table

    table(target, "json" if as_json else form, columns, baseline, options)


@expand_options("controls", "tune_with", "ladder")
def report(
    targets: Annotated[list[str], Argument(metavar="TARGET..", help="Tables, files or folders; several make one page.")],
    options: RowOptions,
    to: Annotated[Path | None, Option("--to", metavar="FOLDER|FILE", help="Default: RESULTS/reports.")] = None,
    baseline: Baseline = None,
    second_corpora: Annotated[
        list[str] | None,
        Option("--second-corpus", metavar="NAME", help="Show beside each claim what the rows give on this corpus; may be repeated."),
    ] = None,
    as_markdown: Annotated[bool, Option("--markdown", help="Write Markdown with the charts as SVG files beside it.")] = False,
    text: Annotated[
        Path | None, Option("--text", metavar="FILE.md", help="With --markdown: begin with it, pages of papers with STEM-PAPER.md.")
    ] = None,
) -> None:
    """Write one self-contained HTML page: results, verdicts, curves, translations, differences of the specs and provenance.

    Example:  nmt-ablate report dou2018/table1 --profile mini
    """
    from orchestrator.cli.commands.report import report

    report(targets, options, to=to, baseline=baseline, second_corpora=second_corpora or (), text=text, as_markdown=as_markdown)


@expand_options("controls", "tune_with", "ladder")
def verdict(
    target: Table,
    options: RowOptions,
    session: Annotated[
        str | None, Option("--session", metavar="NAME", help="Judge the claims as one stream with those of RESULTS/sessions/NAME.jsonl.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge for each claim of a table whether our runs confirm it, on BLEU and on the nll of the references.

    Claims are the differences that the table's paper reports and the claims in its file. A row has to beat each of its controls.
    If the named rows have no claim, their differences are judged.

    Exit codes: 0: all confirmed, or higher or lower without a claim; 6: some reversed or without such an effect; 7: some open, because of
    too few seeds or missing runs. With --session: 6 as before; 7 if a claim is not accepted.

    Example:  nmt-ablate verdict dou2018/table1 --profile mini --json
    """
    from orchestrator.cli.commands.verdict import verdict

    verdict(target, options, session=session, as_json=as_json)


@expand_options()
def translate(row: Trained, options: RowOptions, seed: Seed = None) -> None:
    """Translate running text from stdin to stdout, line by line, with a row's trained model.

    Example:  nmt-ablate translate sweeps/multi30k-first/baseline --data-dir DIR < source.de > target.en
    """
    from orchestrator.cli.commands.request import Request, only
    from orchestrator.decoding.translate import lines_of
    from orchestrator.lifecycle.translator import load_translator

    translator = load_translator(only(row, Request.of(row, options, seed=seed).rows), options)
    for line in translator.translate(lines_of(sys.stdin.buffer.read()), log):
        sys.stdout.buffer.write(f"{line}\n".encode())


@expand_options()
def export(
    row: Trained,
    to: Annotated[Path, folder("--to", "Folder to create; new or empty.")],
    options: RowOptions,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Export a trained row as a self-contained folder: weights, vocabulary, config, capsule, model card, translation script and code.

    The script gives the same words as `translate` on an equal machine. It needs torch but no part of this program.

    Example:  nmt-ablate export sweeps/multi30k-first/baseline --data-dir DIR --to baseline-model
    """
    from orchestrator.cli.commands.request import Request, only
    from orchestrator.data.prepare import prepare
    from orchestrator.lifecycle.export_row import export_row
    from orchestrator.lifecycle.translator import task_of

    need_folder(options.results, "--results")
    make_parent(to, "--to")
    request = Request.of(row, options, seed=seed)
    found = only(row, request.rows)
    task = task_of(found, options)
    prepared = prepare(found.run_spec.data, options.data_dir, options.cache_dir)
    exported = export_row(found, task, prepared, request.finder.ledger, to)
    if as_json:
        record = {"folder": str(to), "id": found.id, "seed": task.seed, "weights_sha256": exported.weights_sha256, "files": exported.files}
        print_json(record | {"scores": exported.metadata["scores"], "keys": task.keys.as_dict()})
    log(f"{to}: {len(exported.files)} files, {sum(exported.files.values())} bytes; weights {exported.weights_sha256}")
    log(f"try:  python {to / 'translate.py'} < source.txt")


@expand_options()
def repro(
    target: Annotated[str, Argument(metavar="ROW|FILE|KEY", help="A finished row, or the train key of a run (12 digits or more).")],
    options: RowOptions,
    seed: Seed = None,
    into: Annotated[Path | None, folder("--into", "Folder to run in and keep: new, or of an interrupted repro of the same run.")] = None,
    strict: Annotated[bool, Option("--strict", help="Exit code 1 for anything but the same bits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a recorded row again from its spec, in a new folder, with the rows it starts from, and compare with the record.

    Exit code 0: `same bits`, expected with equal code, versions, device and threads; or `within tolerance`, if the capsules differ. Exit
    code 1: `bits differ`, although the capsules agree; or `outside tolerance`. The command prints the parts that differ.

    Example:  nmt-ablate repro quickstart/fusion/baseline --seed 2
    """
    from orchestrator.cli.commands.request import Request, only, open_ledger
    from orchestrator.cli.output import console, stdout_to_stderr
    from orchestrator.lifecycle import recorded
    from orchestrator.lifecycle.reproduce import fresh_folder, reproduce
    from orchestrator.tables import filled_table

    def show(title: str, first: str, parts: Iterable[tuple[Any, ...]]) -> None:
        def text(value: Any) -> Any:
            return f"{value:.6g}" if isinstance(value, float) else "" if value is None else value

        lines = [{first: what, "recorded": text(before), "again": text(again), "": word} for what, before, again, word in parts]
        console().print(filled_table(lines, title=title))

    need_folder(options.data_dir, "--data-dir")
    ledger = open_ledger(options.results)
    if recorded.KEY.fullmatch(target):
        if seed is not None or options.profile is not None or options.sets:
            raise UserError(f"{target}: a train key implies seed, profile and overrides; expected none of these options")
        run = recorded.by_key(ledger, target)
    else:
        run = recorded.of_row(ledger, only(target, Request.of(target, options, seed=seed).rows), options.data_dir)
    key = run.keys[run.row.id].train or ""
    with fresh_folder(options.results, into, key) as folder, stdout_to_stderr():
        verdicts = reproduce(run, ledger, folder, options.data_dir, options.cache_dir)
    last, verdict = verdicts[-1]
    if as_json:
        summary = {"id": run.row.id, "train_key": key, "verdict": verdict.verdict, "reproduced": verdict.reproduced}
        runs = [{"id": task.id, "seed": task.seed, **found.as_json()} for task, found in verdicts]
        print_json(summary | {"into": None if into is None else str(into), "runs": runs})
    for task, found in () if as_json else verdicts:
        show(f"{task.name}: {found.verdict}", "what", ((one.what, one.recorded, one.again, one.word) for one in found.measures))
    if verdict.capsule and not as_json:
        words = {True: "can change bits", False: "cannot change bits"}
        parts = ((part.part, part.recorded, part.again, words[part.decides]) for part in verdict.capsule)
        show("what it was made with", "part of the capsule", parts)
    log(*(f"bits are not promised: {line}" + (" differs" if " " not in line else "") for line in verdict.reasons))
    log(f"{run.row.id} seed {last.seed}: {verdict.verdict}")
    if not verdict.reproduced or (strict and verdict.verdict != "same bits"):
        raise typer.Exit(1)
