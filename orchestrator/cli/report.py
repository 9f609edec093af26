"""`analyse`, `table`, `report` and `verdict`: what is made of finished runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli.options import AsJson, Controls, Export, NoTracking, Seed, TrackingUri, expand_options
from orchestrator.files.folders import checked, parser
from orchestrator.specs.analyses import KINDS
from orchestrator.sweeps.options import RowOptions


def _folder_or_page(value: Any) -> Path:
    path = Path(value)
    if path.suffix not in (".html", ".md") or "\0" in str(value):
        return checked(value, "--to")
    checked(path.parent, "--to")
    return path


@expand_options()
def analyse(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET..", help="Rows, tables, files or folders of search_spaces.")],
    options: RowOptions,
    kind: Annotated[str | None, typer.Option("--kind", help=f"One of {', '.join(KINDS)}; default: what the rows name.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="Option of the analysis, as edges=15,30,45; may be repeated.")
    ] = None,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=parser("--out"), help="Folder of the files; default RESULTS/analyses/NAME."),
    ] = None,
    width: Annotated[
        str | None, typer.Option("--width", metavar="column|page", help="Width of the figure: one or two columns of a paper.")
    ] = None,
    export: Export = None,
    no_tracking: NoTracking = False,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
) -> None:
    """Analyse trained rows: data as JSON and CSV, figures as PNG, SVG and PDF. Rows without a run are named and left out.

    Example:  nmt-ablate analyse dou2018/fig4 --profile smoke
    """
    from orchestrator.cli.commands.analyse import Outputs, analyse

    outputs = Outputs(out, export, no_tracking, tracking_uri, as_json, width)
    analyse(targets, kind, settings or [], 1 if seed is None else seed, options, outputs)


@expand_options()
def table(
    target: Annotated[
        str, typer.Argument(metavar="TABLE", help="paper/table, rows of it (paper/table/row1,row5), FILE.yaml, or a folder of tables.")
    ],
    options: RowOptions,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="terminal|md|json|latex|html", help="Default: terminal, and md where the output is piped."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="row,bleu,..", help="Columns in this order, or `all`. Default: those that say something."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="ROW", help="Compare with this row; default: the one that a row starts from.")
    ] = None,
    controls: Controls = None,
    as_json: AsJson = False,
) -> None:
    """A paper's table with its numbers beside ours. Rows that did not run are marked; stopped rows show no figure.

    Differences have a 95 % interval over other seeds and other sentences, and a verdict on the paper's claim; both need two seeds or more.

    Example:  nmt-ablate table dou2018/table1 --format md
    """
    from orchestrator.cli.commands.table import table

    table(target, "json" if as_json else form, columns, baseline, replace(options, controls=controls))


@expand_options()
def report(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="TARGET..", help="Tables, sweeps, files or folders, as `sweep` takes them; several make one page."),
    ],
    options: RowOptions,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", parser=_folder_or_page, metavar="FOLDER|FILE", help="A folder or a .html or .md file; default RESULTS/reports."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="ROW", help="Compare with this row; default: the one that a row starts from.")
    ] = None,
    controls: Controls = None,
    second_corpora: Annotated[
        list[str] | None,
        typer.Option(
            "--second-corpus",
            metavar="NAME",
            help="Show beside each claim what the same rows give on this corpus; may be repeated.",
        ),
    ] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown for a README, with the charts as SVG files beside it, in place of HTML.")
    ] = False,
    text: Annotated[
        Path | None,
        typer.Option(
            "--text",
            metavar="FILE.md",
            help="With --markdown: the page begins with this text; STEM-PAPER.md beside it begins the page of a paper.",
        ),
    ] = None,
) -> None:
    """Write one HTML page that needs nothing else: results, verdicts, curves, translations, what differs, provenance.

    Example:  nmt-ablate report dou2018/table1 --profile mini
    """
    from orchestrator.cli.commands.report import report

    options = replace(options, controls=controls)
    report(targets, options, to=to, baseline=baseline, second_corpora=second_corpora or (), text=text, as_markdown=as_markdown)


@expand_options()
def verdict(
    target: Annotated[
        str, typer.Argument(metavar="TABLE", help="paper/table, rows of it (paper/table/row1,row5), FILE.yaml, or a folder of tables.")
    ],
    options: RowOptions,
    controls: Controls = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session", metavar="NAME", help="Judge the files' claims as one stream with all that joined RESULTS/sessions/NAME.jsonl."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say of each claim of a table whether our runs confirm it, on BLEU and on the nll of the references.

    The claims are the differences that its paper reports, and those of its file. A row has to beat each of its controls.

    Exit codes: 0 all confirmed, without a claim higher or lower; 6 some reversed, or without such an effect; 7 some open: too few seeds, or
    not run. With --session: 6 as before; 7 if a claim is not accepted.

    Example:  nmt-ablate verdict dou2018/table1 --profile mini --json
    """
    from orchestrator.cli.commands.verdict import verdict

    verdict(target, replace(options, controls=controls), session=session, as_json=as_json)
