"""`new`, `plan`, `show`, `list`, `explain`, `ablate`, `describe` and `schema`: write and inspect specs without running them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import AsJson, CacheDir, Controls, DataDir, Profile, Seed, Seeds, Sets, expand_options
from orchestrator.specs.gc_pause import no_garbage_collection
from orchestrator.sweeps.options import CACHE, RowOptions


@expand_options()
@no_garbage_collection(freeze=True)  # the imports too
def plan(
    targets: Annotated[list[str], typer.Argument(metavar="SPEC|ROW..", help="Files, folders, tables or rows.")],
    options: RowOptions,
    seeds: Seeds = None,
    controls: Controls = None,
    force: Annotated[bool, typer.Option("--force", help="Allow more than 20,000 runs.")] = False,
    probe: Annotated[bool, typer.Option("--probe", help="Measure a few updates of each architecture on this machine.")] = False,
    probes: Annotated[int, typer.Option("--probes", min=1, help="Maximum number of new probes; other rows take the nearest's rate.")] = 12,
    check: Annotated[bool, typer.Option("--check", help="Compare estimates with the seconds that finished runs took.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Print every row of more than 50. Default: the first and the last five.")] = False,
    as_json: AsJson = False,
) -> None:
    """What would run and what it costs: keys, parameters, operations, time, memory, what is done and what is shared. Starts no training.

    Time and memory come from probes, which --probe measures and stores in results/probes; without probes they are unknown.

    Example:  nmt-ablate plan dou2018/table1
    """
    from orchestrator.cli.commands.plan import plan

    options = replace(options, controls=controls)
    plan(targets, options, seeds, force=force, max_probes=probes if probe else 0, check=check, every_row=rows, as_json=as_json)


def new(
    address: Annotated[str, typer.Argument(metavar="PAPER/TABLE", help="Address of the new table, such as mine/first.")],
    corpus: Annotated[str, typer.Option("--corpus", help="Its corpus, as `data add` named it.")] = "toy-quickstart",
    data_dir: DataDir = None,
) -> None:
    """Write a commented table to start from: three rows on a corpus, in search_spaces of the working folder.

    Example:  nmt-ablate new mine/first --corpus toy-quickstart
    """
    from orchestrator.cli.commands.new import new

    new(address, corpus, data_dir)


def show(
    target: Annotated[str, typer.Argument(metavar="ROW|FILE", help="paper/table/row or FILE.yaml#row.")],
    seed: Seed = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    cache_dir: CacheDir = CACHE,
    as_json: AsJson = False,
) -> None:
    """Print the resolved row as YAML that needs no other file; `nmt-ablate run` accepts it. A matched control needs its data.

    Example:  nmt-ablate show dou2018/table1/row9 > row9.yaml
    """
    from orchestrator.cli.commands.specs import show

    show(target, seed, RowOptions(profile=profile, sets=sets, data_dir=data_dir, cache_dir=cache_dir), as_json)


def list_rows(
    prefix: Annotated[str, typer.Argument(help="Only addresses that start so (a table lists its rows), or the tables of a folder.")] = "",
    controls: Controls = None,
    as_json: AsJson = False,
) -> None:
    """List tables, or the rows of one.

    Example:  nmt-ablate list dou2018/table1
    """
    from orchestrator.cli.commands.specs import list_rows

    list_rows(prefix, as_json, controls)


def explain(
    target: Annotated[str, typer.Argument(metavar="SPEC", help="FILE.yaml or paper/table with a grid.")],
    choices: Annotated[list[str] | None, typer.Argument(metavar="AXIS=VALUE..", help="Axes that are not named take every value.")] = None,
    as_json: AsJson = False,
) -> None:
    """Is this combination a row of the grid, and if not, which condition excludes it? Exit code 0: at least one row; 4: none.

    Example:  nmt-ablate explain search_spaces/sweeps/fusion-grid.yaml fusion=linear side=both memory=msc
    """
    from orchestrator.cli.commands.specs import explain

    explain(target, choices or [], as_json)


def ablate(
    target: Annotated[str, typer.Argument(metavar="ROW", help="paper/table/row, FILE.yaml#row, or a file that `show` wrote.")],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="ROW", help="Row whose components replace those left out; default: the row's parent, or its table's."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the table to this file instead of stdout.")] = None,
) -> None:
    """Leave-one-component-out rows of a row, as a table of its own for `plan`, `run`, `sweep` and `table`.

    Example:  nmt-ablate ablate dou2018/table1/row9 > row9-ablated.yaml && nmt-ablate sweep row9-ablated.yaml --profile smoke --engine local
    """
    from orchestrator.cli.commands.specs import ablate

    ablate(target, baseline, output)


def describe(
    kind: Annotated[str | None, typer.Argument(help="A component (hierarchical) or a registry (connection). Default: all names.")] = None,
    as_json: AsJson = False,
) -> None:
    """A component's equation, options and defaults.

    Example:  nmt-ablate describe hierarchical
    """
    from orchestrator.cli.commands.specs import describe

    describe(kind, as_json)


def schema(
    form: Annotated[str, typer.Option("--format", metavar="json|md", help="JSON schema, for editors, or docs/spec.md.")] = "json",
) -> None:
    """Every key of a table's file, described.

    Example:  nmt-ablate schema > table.schema.json
    """
    from orchestrator.cli.commands.specs import print_schema

    print_schema(form)
