"""Components in words: their equation, options, types and defaults."""

import inspect
from collections.abc import Callable
from typing import Any

from models.registry import REGISTRIES
from orchestrator.errors import UserError
from orchestrator.specs.components import MAX_INT
from orchestrator.specs.json_schema import component_schema
from orchestrator.specs.positions import nearest, shown

BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


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
    found = component_schema(registry, name)
    options = []
    for option, key in list(found["properties"].items())[1:]:
        facts = {"name": option, "type": type_of(key), "default": key.get("default"), "required": option in found.get("required", [])}
        options.append(facts | {"description": key.get("description", "")})
    source = inspect.getsourcefile(cls) or ""
    facts = {"registry": registry, "kind": name, "version": cls.version, "doc": found["description"], "options": options}
    return facts | {"source": source[source.rfind("models/") :]}


def type_of(key: dict[str, Any], named: Callable[[str], str] = str, value: Callable[[Any], str] = str) -> str:
    """Returns the type of a key of a JSON schema in words. named: text of a reference, of the definition's name. value: text of a value."""
    if "$ref" in key:
        return named(key["$ref"].rpartition("/")[2])
    if "enum" in key:
        return " | ".join(map(value, key["enum"]))
    if "const" in key:
        return value(key["const"])
    if branches := key.get("anyOf") or key.get("oneOf"):
        return " | ".join(dict.fromkeys(type_of(branch, named, value) for branch in branches))
    if key.get("type") == "array":
        return f"list of {type_of(key.get('items', {}), named, value)}"
    if key.get("type") == "object":
        items = key.get("additionalProperties")
        return f"mapping to {type_of(items, named, value)}" if isinstance(items, dict) and items else "mapping"
    name = str(key.get("type", "any"))
    bounds = {sign: key[bound] for bound, sign in BOUNDS.items() if abs(key.get(bound, MAX_INT)) < MAX_INT}
    if len(bounds) < 2:
        return " ".join([name, *(f"{sign} {bound:g}" for sign, bound in bounds.items())])
    low, high = bounds
    return f"{name} in {'[' if low == '>=' else '('}{bounds[low]:g}, {bounds[high]:g}{']' if high == '<=' else ')'}"
