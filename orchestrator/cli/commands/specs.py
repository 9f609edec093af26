"""`show`, `list`, `explain`, `ablate`, `describe` and `schema`. Nothing here loads torch."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import typer

from orchestrator.cli.commands.rows import resolve_rows
from orchestrator.cli.output import print_json
from orchestrator.errors import UserError
from orchestrator.safe_text import log, visible
from orchestrator.specs import describe as components
from orchestrator.specs.controls import WORDS, parse, wanted
from orchestrator.specs.grid.ablate import ablation
from orchestrator.specs.grid.explain import explain as explain_grid
from orchestrator.specs.index import find_all, tables
from orchestrator.specs.json_schema import json_schema
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.reference import page
from orchestrator.specs.resolver import written
from orchestrator.specs.row import Control
from orchestrator.specs.rows import resolve
from orchestrator.specs.show import as_plain, to_yaml
from orchestrator.sweeps.options import RowOptions

NOT_IN_GRID = 4
"""Exit code of `explain` where no requested combination is a row."""


def show(target: str, seed: int | None, options: RowOptions, as_json: bool) -> None:
    rows = resolve_rows(target, options, seed=seed)
    if len(rows) > 1:
        raise UserError(f"{target}: found {len(rows)} rows; expected one: {', '.join(row.id for row in rows[:24])}")
    if as_json:
        print_json(as_plain(rows[0]))
    else:
        sys.stdout.write(to_yaml(rows[0]))


def list_rows(prefix: str, as_json: bool, controls: str | None) -> None:
    given = parse(controls)
    known, problems = tables()
    if prefix and prefix not in known and Path(prefix).exists():
        folder = Path(prefix).is_dir()
        known = {target.table.address: target.table for target in find_all(prefix)}
        prefix = "" if folder else next(iter(known))
    inside = {address: table for address, table in known.items() if prefix.startswith(f"{address}/")}
    rows = [
        {"id": f"{address}/{name}", "label": raw.head.label or name, "kind": raw.head.kind, "file": table.document.file}
        for address, table in known.items()
        for name, raw in (table.rows if address in inside else written(table)).items()
    ]
    chosen = [row for row in rows if row["id"].startswith(prefix)]
    matched: dict[str, list[Control]] = {}
    for address in {"/".join(row["id"].split("/")[:2]) for row in chosen if prefix}:
        if given is not None or any(raw.figures.controls for raw in written(known[address]).values()):
            matched |= wanted(resolve(str(known[address].path)), given)
    chosen = [each for row in chosen for each in (row, *(_control(row, control) for control in matched.get(row["id"], ())))]
    grids = [
        {"table": address, "axes": ", ".join(axis.name for axis in table.grid.axes), "file": table.document.file}
        for address, table in known.items()
        if table.grid is not None and address not in inside and address.startswith(prefix)
    ]
    if not chosen and not grids:
        raise UserError(f"{prefix!r}: no row has such an address; tables: {', '.join(known) or 'none'}", *problems)
    if as_json:
        print_json({"rows": chosen, "grids": grids})
    elif prefix:
        for row in chosen:
            typer.echo(visible(f"{row['id']:<44} {row['kind']:<9} {row['label']}"))
        for grid in grids:
            hint = f"(plan counts its rows, list {grid['table']}/ lists them)"
            typer.echo(visible(f"{grid['table'] + '/..':<44} {'grid':<9} {grid['axes']} {hint}"))
    else:
        for address, table in known.items():
            grid_too = "" if table.grid is None else f" and a grid of {len(table.grid.axes)} axes"
            typer.echo(visible(f"{address:<32} {len(written(table)):>3} rows   {table.document.file}{grid_too}"))
    for line in problems:
        log(f"warning: {line}")


def _control(row: dict[str, str], control: Control) -> dict[str, str]:
    """A matched control as `list_rows` lists it. row: its variant."""
    of, against = ("/".join(address.split("/")[2:]) for address in (control.of, control.against))
    return row | {"id": control.name, "label": f"{of}: {WORDS[control.kind]} of {against}"}


def explain(target: str, choices: list[str], as_json: bool) -> None:
    explanation = explain_grid(target, choices)
    rows, examples = explanation["rows"], explanation["examples"]
    if as_json:
        print_json(explanation)
    else:
        given = visible(" ".join(explanation["given"])) or "everything"
        typer.echo(f"{given}: {rows:,} of {explanation['combinations']:,} combinations are rows")
        for name in examples:
            typer.echo(visible(f"  row: {name}"))
        if rows > len(examples):
            typer.echo(f"  and {rows - len(examples):,} more")
        for reason in explanation["excluded"]:
            typer.echo(visible(f"  excluded ({reason['combinations']:,}): {reason['line']}"))
    if not rows:
        raise typer.Exit(NOT_IN_GRID)


def ablate(target: str, baseline: str | None, output: Path | None) -> None:
    table = ablation(target, baseline)
    if output is None:
        sys.stdout.write(table.yaml)
    else:
        try:
            output.write_text(table.yaml, encoding="utf-8")
        except OSError as error:
            raise UserError(f"--output {shown(str(output), 300)}: cannot be written ({error.strerror}); expected a file") from None
    for line in table.notes:
        log(line)


def describe(kind: str | None, as_json: bool) -> None:
    if kind is None:
        registries = components.registry_list()
        if as_json:
            print_json(registries)
            return
        for registry, names in registries.items():
            typer.echo(f"{registry:<16} {', '.join(names)}")
        return
    described = components.describe(kind)
    if as_json:
        print_json(described)
        return
    for component in described:
        typer.echo(f"{component['registry']}/{component['kind']}  (version {component['version']}, {component['source']})\n")
        typer.echo("\n".join(f"    {line}" for line in component["doc"].splitlines()))
        for option in component["options"]:
            default = "required" if option["required"] else f"default {option['default']}"
            typer.echo(f"\n    {option['name']}: {option['type']}, {default}", nl=False)
            if option["description"]:
                indent = " " * 8
                words = textwrap.fill(option["description"], 136, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
                typer.echo(f"\n{words}", nl=False)
        typer.echo("\n")


def print_schema(form: str) -> None:
    if form not in ("json", "md"):
        raise UserError(f"--format {shown(form)}: {nearest(form, ['json', 'md'])}")
    typer.echo(page() if form == "md" else json.dumps(json_schema(), indent=1) + "\n", nl=False)
