"""JSON schema of table files, for editors and for docs/spec.md (`specs.reference`)."""

from __future__ import annotations

from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs import field_docs
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import SLOTS, schema
from orchestrator.specs.grid.schema import GridSection
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table import FigureHeader, RowHead, TableHead
from orchestrator.specs.templates import TemplateHead

HEADS = (TableHead, RowHead, FigureHeader, TemplateHead, GridSection, RunSpec)


def definitions() -> dict[str, Any]:
    """Returns class -> JSON schema of every section and head; components and the grid are references to `#/$defs/NAME`."""
    schemas = {head.__name__: field_docs.json_schema_of(head) for head in HEADS}
    found = {name: one for schema in schemas.values() for name, one in schema.pop("$defs", {}).items()} | schemas
    for path, registry in SLOTS.items():
        owner = {"encoder": "EncoderSpec", "decoder": "DecoderSpec"}.get(str(path[0]), "ModelSpec")
        _refer(found[owner]["properties"][str(path[-1])], registry)
    _refer(found["ModelSpec"]["properties"]["regularizers"], "regularizer")
    _refer(found["TableHead"]["properties"]["grid"], "GridSection")
    return found


def _refer(key: dict[str, Any], name: str) -> None:
    """Puts a reference in place of a key's type; its description and default stay, and whether it is a list or may be null."""
    one = {"$ref": f"#/$defs/{name}"}
    null = [{"type": "null"}] if any(branch.get("type") == "null" for branch in key.get("anyOf", [])) else []
    own = {"type": "array", "items": one} if key.get("type") == "array" else {"anyOf": [one, *null]}
    kept = {part: key[part] for part in ("description", "default") if part in key}
    key.clear()
    key.update(own | kept)


def json_schema() -> dict[str, Any]:
    """Returns the schema (draft 2020-12). Sections are differences to a base, so none of their keys is required."""
    found = definitions()
    table, row, _, template, grid, spec = (found.pop(head.__name__) for head in HEADS)
    for name in field_docs.json_schema_of(RunSpec)["$defs"]:
        found[name].pop("required", None)
    sections = {name: spec["properties"][name] for name in SECTIONS}
    for head in (table, row):
        head["properties"]["also"]["additionalProperties"] = {"anyOf": [sections["score"], {"type": "null"}]}
    properties = table["properties"] | sections
    for name, entry, kind in (("rows", row, ["object", "null"]), ("templates", template, "object")):
        own = {"type": kind, "additionalProperties": False, "properties": entry["properties"] | sections}
        properties[name]["additionalProperties"] = own
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nmt-ablate table",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": found | {"GridSection": grid} | {registry: _components(registry) for registry in REGISTRIES},
    }


def component_schema(registry: str, name: str) -> dict[str, Any]:
    """Returns the JSON schema of a component, with the descriptions that its docstring gives."""
    cls, own = REGISTRIES[registry].get(name), schema(registry, name).model_json_schema()
    own["description"], texts = field_docs.of_component(cls)
    texts["kind"] = own["description"].split("\n\n")[0]
    for option, key in own["properties"].items():
        key |= {"description": texts[option]} if option in texts else {}
    return own


def _components(registry: str) -> dict[str, Any]:
    branches: list[dict[str, Any]] = []
    for name in REGISTRIES[registry].names():
        own = component_schema(registry, name)
        own.pop("title", None)
        own["required"] = ["kind", *(n for n in own.get("required", []) if n != "kind")]
        branches.append(own)
    partial = {"type": "object", "not": {"required": ["kind"]}, "description": "options of the kind that the base has"}
    return {"anyOf": [*branches, partial]}
