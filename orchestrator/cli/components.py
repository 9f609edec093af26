"""`describe` and `schema`: what a spec may say."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orchestrator.cli.options import AsJson


def register(app: typer.Typer) -> None:
    app.command("describe")(describe)
    app.command("schema")(schema)


def describe(
    kind: Annotated[str | None, typer.Argument(help="A component (hierarchical) or a registry (connection). Default: all names.")] = None,
    as_json: AsJson = False,
) -> None:
    """A component's equation, options and defaults.

    Example:  nmt-ablate describe hierarchical
    """
    from orchestrator.cli.options import emit
    from orchestrator.specs.describe import describe as look
    from orchestrator.specs.describe import registry_list

    if kind is None:
        names = registry_list()
        if as_json:
            emit(names)
        else:
            for registry, found in names.items():
                typer.echo(f"{registry:<16} {', '.join(found)}")
        return
    components = look(kind)
    if as_json:
        emit(components)
        return
    for component in components:
        _print(component)


def _print(component: dict[str, Any]) -> None:
    typer.echo(f"{component['registry']}/{component['kind']}  (version {component['version']}, {component['source']})\n")
    typer.echo("\n".join(f"    {line}" for line in component["doc"].splitlines()))
    for option in component["options"]:
        default = "required" if option["required"] else f"default {option['default']}"
        typer.echo(f"\n    {option['name']}: {option['type']}, {default}", nl=False)
    typer.echo("\n")


def schema() -> None:
    """JSON schema of a table's file, for editors.

    Example:  nmt-ablate schema > table.schema.json
    """
    import json

    from orchestrator.specs.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=1))
