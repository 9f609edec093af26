"""Descriptions of components: documentation, options with types and defaults, and source file."""

from __future__ import annotations

import inspect
from typing import Any

from models.registry import REGISTRIES
from orchestrator.errors import UserError
from orchestrator.specs.components import schema
from orchestrator.specs.positions import nearest, shown


def registry_list() -> dict[str, list[str]]:
    """Returns registry -> component names, including empty registries."""
    return {kind: registry.names() for kind, registry in REGISTRIES.items()}


def describe(name: str) -> list[dict[str, Any]]:
    """Describes every component called `name`, or all components of a registry.

    `name` is for example `hierarchical`, `connection/hierarchical` or `connection`. Raises UserError if nothing matches.
    """
    known = registry_list()
    kind, _, wanted = name.rpartition("/")
    if name in known:
        return [_one(name, each) for each in known[name]]
    found = [_one(registry, wanted) for registry, names in known.items() if wanted in names and kind in ("", registry)]
    if not found:
        every = [*known, *(each for names in known.values() for each in names)]
        raise UserError(f"{shown(name)}: unknown component; {nearest(wanted, dict.fromkeys(every))}")
    return found


def _one(registry: str, name: str) -> dict[str, Any]:
    cls = REGISTRIES[registry].get(name)
    options = []
    for option, info in schema(registry, name).model_fields.items():
        if option != "kind":
            kind = schema(registry, name).model_json_schema()["properties"][option]
            options.append(
                {
                    "name": option,
                    "type": _type(kind),
                    "default": None if info.is_required() else info.default,
                    "required": info.is_required(),
                }
            )
    source = inspect.getsourcefile(cls) or ""
    return {
        "registry": registry,
        "kind": name,
        "version": getattr(cls, "version", 1),
        "doc": inspect.getdoc(cls) or "",
        "options": options,
        "source": source[source.rfind("models/") :],
    }


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return " | ".join(_type(branch) for branch in schema["anyOf"])
    name = str(schema.get("type", "any"))
    low = schema.get("minimum")
    return f"{name} >= {low}" if low is not None and low >= 0 else name
