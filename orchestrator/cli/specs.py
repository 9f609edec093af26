"""`new`, `plan`, `show`, `list`, `explain`, `ablate`, `describe` and `schema`: write and inspect specs without running them."""

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from orchestrator.cli.options import Seed, Seeds, expand_options
from orchestrator.cli.output import echo, print_json
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.safe_text import log
from orchestrator.specs.positions import display
from orchestrator.sweeps.options import AsJson, DataDir, RowOptions

NOT_IN_GRID = 4
"""Exit code of `explain` if no requested combination is a row."""


@expand_options("controls", "tune", "tune_with", "ladder")
def plan(
    targets: Annotated[list[str], Argument(metavar="SPEC|ROW..", help="Files, folders, tables or rows.")],
    options: RowOptions,
    seeds: Seeds = None,
    force: Annotated[bool, Option("--force", help="Allow more than 20,000 runs.")] = False,
    probe: Annotated[bool, Option("--probe", help="Measure a few updates of each architecture on this machine.")] = False,
    probes: Annotated[int, Option("--probes", min=1, help="Maximum number of new probes; other rows take the nearest's rate.")] = 12,
    as_json: AsJson = False,
) -> None:
    """Show what would run and what it costs: keys, parameters, operations, time, memory, finished and shared work. Starts no training.

    Time and memory come from probes. --probe measures them and stores them in results/probes. Without probes they are unknown.

    Example:  nmt-ablate plan dou2018/table1
    """
    from orchestrator.cli.commands.plan import plan

    plan(targets, options, seeds, force=force, max_probes=probes if probe else 0, as_json=as_json)


def new(
    address: Annotated[str, Argument(metavar="PAPER/TABLE", help="Address of the new table, such as mine/first.")],
    corpus: Annotated[str, Option("--corpus", help="Its corpus, as `data add` named it.")] = "toy-quickstart",
    data_dir: DataDir = None,
) -> None:
    """Write a commented table as a start: three rows on a corpus, in search_spaces of the working folder.

    Example:  nmt-ablate new mine/first --corpus toy-quickstart
    """
    from orchestrator.data.own_corpus import write_table

    need_folder(data_dir, "--data-dir")
    path = write_table(address, corpus, data_dir)
    echo([display(path)])
    given = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    log(f"next: nmt-ablate sweep {address} --engine local{given}")


@expand_options()
def show(
    target: Annotated[str, Argument(metavar="ROW|FILE", help="paper/table/row or FILE.yaml#row.")],
    options: RowOptions,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Print the resolved row as YAML that needs no other file; `nmt-ablate run` accepts it. A matched control needs its data.

    ROW@tuned prints the row with the values that a search in the ledger has chosen.

    Example:  nmt-ablate show dou2018/table1/row9 > row9.yaml
    """
    from orchestrator.cli.commands.request import Request
    from orchestrator.specs.show import as_plain, to_yaml

    row, *more = Request.of(target, options, seed=seed).rows
    if more:
        raise UserError(f"{target}: found {1 + len(more)} rows; expected one: {', '.join(each.id for each in (row, *more[:23]))}")
    if as_json:
        print_json(as_plain(row))
    else:
        sys.stdout.write(to_yaml(row))


def list_(
    prefix: Annotated[str, Argument(help="Only addresses that start so (a table lists its rows), or the tables of a folder.")] = "",
    as_json: AsJson = False,
) -> None:
    """List tables, or the rows of one table. `plan` shows matched controls.

    Example:  nmt-ablate list dou2018/table1
    """
    from orchestrator.specs.index import find_all, tables

    known, problems = tables()
    if prefix and prefix not in known and Path(prefix).exists():
        folder = Path(prefix).is_dir()
        known = {target.table.address: target.table for target in find_all(prefix)}
        prefix = "" if folder else next(iter(known))
    chosen, grids = [], []
    for address, table in known.items():
        inside = prefix.startswith(f"{address}/")
        rows = {name: raw for name, raw in (table.rows if inside else table.written).items() if f"{address}/{name}".startswith(prefix)}
        for name, raw in rows.items():
            label = raw.head.label or name
            chosen.append({"id": f"{address}/{name}", "label": label, "kind": raw.head.kind, "file": table.document.file})
        if table.grid is not None and not inside and address.startswith(prefix):
            grids.append({"table": address, "axes": ", ".join(axis.name for axis in table.grid.axes), "file": table.document.file})
    if not chosen and not grids:
        raise UserError(f"{prefix!r}: no row has such an address; tables: {', '.join(known) or 'none'}", *problems)
    if as_json:
        print_json({"rows": chosen, "grids": grids})
    elif prefix:
        echo(f"{row['id']:<44} {row['kind']:<9} {row['label']}" for row in chosen)
        hint = "(plan counts its rows, list {}/ lists them)"
        echo(f"{grid['table'] + '/..':<44} {'grid':<9} {grid['axes']} {hint.format(grid['table'])}" for grid in grids)
    else:
        grid_of = {address: f" and a grid of {len(table.grid.axes)} axes" for address, table in known.items() if table.grid is not None}
        echo(f"{name:<32} {len(table.written):>3} rows   {table.document.file}{grid_of.get(name, '')}" for name, table in known.items())
    log(*(f"warning: {line}" for line in problems))


def explain(
    target: Annotated[str, Argument(metavar="SPEC", help="FILE.yaml or paper/table with a grid.")],
    choices: Annotated[list[str] | None, Argument(metavar="AXIS=VALUE..", help="Axes that are not named take every value.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell whether a combination is a row of the grid, and if not, which condition excludes it. Exit code 0: at least one row; 4: none.

    Example:  nmt-ablate explain search_spaces/sweeps/fusion-grid.yaml fusion=linear side=both memory=msc
    """
    from orchestrator.specs.grid.explain import explain

    explanation = explain(target, choices or [])
    rows, examples = explanation["rows"], explanation["examples"]
    if as_json:
        print_json(explanation)
    else:
        echo([f"{' '.join(explanation['given']) or 'everything'}: {rows:,} of {explanation['combinations']:,} combinations are rows"])
        echo(f"  row: {name}" for name in examples)
        echo([f"  and {rows - len(examples):,} more"] * (rows > len(examples)))
        echo(f"  excluded ({reason['combinations']:,}): {reason['line']}" for reason in explanation["excluded"])
    if not rows:
        raise typer.Exit(NOT_IN_GRID)


def ablate(
    target: Annotated[str, Argument(metavar="ROW", help="paper/table/row, FILE.yaml#row, or a file that `show` wrote.")],
    baseline: Annotated[
        str | None, Option("--baseline", metavar="ROW", help="Its components replace those left out. Default: the row's parent.")
    ] = None,
) -> None:
    """Print a table of leave-one-component-out rows of a row, for `plan`, `run`, `sweep` and `table`.

    Example:  nmt-ablate ablate dou2018/table1/row9 > row9-ablated.yaml && nmt-ablate sweep row9-ablated.yaml --profile smoke --engine local
    """
    from orchestrator.specs.grid.ablate import ablation

    text, notes = ablation(target, baseline)
    sys.stdout.write(text)
    log(*notes)


def describe(
    kind: Annotated[str | None, Argument(help="A component (hierarchical) or a registry (connection). Default: all names.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a component's equation, options and defaults.

    Example:  nmt-ablate describe hierarchical
    """
    from orchestrator.specs.describe import describe as components
    from orchestrator.specs.describe import registry_list

    if as_json:
        print_json(registry_list() if kind is None else components(kind))
        return
    echo(f"{registry:<16} {', '.join(names)}" for registry, names in registry_list().items() if kind is None)
    for component in () if kind is None else components(kind):
        typer.echo(f"{component['registry']}/{component['kind']}  (version {component['version']}, {component['source']})\n")
        typer.echo(textwrap.indent(component["doc"], "    "))
        for option in component["options"]:
            default = "required" if option["required"] else f"default {option['default']}"
            typer.echo(f"\n    {option['name']}: {option['type']}, {default}", nl=False)
            if option["description"]:
                words = textwrap.fill(option["description"], 128, break_on_hyphens=False)
                typer.echo(f"\n{textwrap.indent(words, ' ' * 8)}", nl=False)
        typer.echo("\n")


def schema() -> None:
    """Print the JSON schema of a table's file, for editors.

    Example:  nmt-ablate schema > table.schema.json
    """
    from orchestrator.specs.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=1))
