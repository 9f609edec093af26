"""`explain` and `ablate`: why a combination is no row of a grid, and what each component of a row gives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import AsJson

EXCLUDED = 4
"""Exit code: nothing of what was asked for is in the grid."""


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)
    app.command("ablate")(ablate)


def explain(
    target: Annotated[str, typer.Argument(metavar="SPEC", help="FILE.yaml or paper/table with a grid.")],
    given: Annotated[list[str] | None, typer.Argument(metavar="AXIS=VALUE..", help="Axes that are not given take every value.")] = None,
    as_json: AsJson = False,
) -> None:
    """Is this combination a row of the grid, and if not, which condition excludes it? Exit code 0: at least one row; 4: none.

    Example:  nmt-ablate explain search_spaces/sweeps/fusion-grid.yaml fusion=linear side=both memory=msc
    """
    from orchestrator.cli.options import emit
    from orchestrator.specs.grid.explain import explain as look

    found = look(target, list(given or []))
    if as_json:
        emit(found)
    else:
        asked = " ".join(found["given"]) or "everything"
        typer.echo(f"{asked}: {found['rows']:,} of {found['combinations']:,} combinations are rows")
        for name in found["examples"]:
            typer.echo(f"  row: {name}")
        if found["rows"] > len(found["examples"]):
            typer.echo(f"  and {found['rows'] - len(found['examples']):,} more")
        for reason in found["excluded"]:
            typer.echo(f"  excluded ({reason['combinations']:,}): {reason['line']}")
    if not found["rows"]:
        raise typer.Exit(EXCLUDED)


def ablate(
    target: Annotated[str, typer.Argument(metavar="ROW", help="paper/table/row, FILE.yaml#row, or what `show` printed.")],
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="ROW", help="Whose components take their place; default: the row's start, or its table's."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the table there in place of stdout.")] = None,
) -> None:
    """Leave-one-component-out rows of a row, as a table of its own that `plan`, `run`, `sweep` and `table` take.

    Example:  nmt-ablate ablate dou2018/table1/row9 > row9-ablated.yaml && nmt-ablate sweep row9-ablated.yaml --profile smoke --engine local
    """
    import sys

    from orchestrator.cli.options import note
    from orchestrator.errors import UserError
    from orchestrator.specs.grid.ablate import ablation
    from orchestrator.specs.positions import shown

    made = ablation(target, baseline)
    if output is None:
        sys.stdout.write(made.yaml)
    else:
        try:
            output.write_text(made.yaml, encoding="utf-8")
        except OSError as error:
            raise UserError(f"--output {shown(str(output), 300)}: cannot be written ({error.strerror}); expected a file") from None
    for line in made.notes:
        note(line)
