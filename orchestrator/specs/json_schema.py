"""JSON schema of table files, for editors and for docs/spec.md (`specs.reference`)."""

from __future__ import annotations

import copy
from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs import field_docs
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import SLOTS, WHOLE_SLOTS, schema
from orchestrator.specs.grid.schema import GridSection
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table import RowHead, TableHead
from orchestrator.specs.templates import TemplateHead


def json_schema() -> dict[str, Any]:
    """Returns the schema (draft 2020-12). Sections are differences to a base, so none of their keys is required."""
    spec = field_docs.json_schema_of(RunSpec)
    definitions: dict[str, Any] = spec["$defs"]
    for name in definitions:
        definitions[name].pop("required", None)
    for path, registry in SLOTS.items():
        owner = {"encoder": "EncoderSpec", "decoder": "DecoderSpec"}.get(str(path[0])) if len(path) == 2 else "ModelSpec"
        optional = registry in WHOLE_SLOTS and registry != "bridge"
        fill(definitions[str(owner)]["properties"][str(path[-1])], _component(registry, optional))
    fill(definitions["ModelSpec"]["properties"]["regularizers"], {"type": "array", "items": _component("regularizer", False)})
    sections = {name: spec["properties"][name] for name in SECTIONS}
    table, row, grid = (field_docs.json_schema_of(head) for head in (TableHead, RowHead, GridSection))
    for head in (table, row):
        head["properties"]["also"]["additionalProperties"] = {"anyOf": [sections["score"], {"type": "null"}]}
    definitions |= table.pop("$defs", {}) | row.pop("$defs", {}) | grid.pop("$defs", {}) | {"GridSection": grid}
    entry = {"type": ["object", "null"], "additionalProperties": False, "properties": row["properties"] | copy.deepcopy(sections)}
    head = field_docs.json_schema_of(TemplateHead)["properties"]
    template = {"type": "object", "additionalProperties": False, "properties": head | sections}
    properties = table["properties"] | sections
    properties["templates"]["additionalProperties"], properties["rows"]["additionalProperties"] = template, entry
    fill(properties["grid"], {"anyOf": [{"$ref": "#/$defs/GridSection"}, {"type": "null"}]})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nmt-ablate table",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": definitions,
    }


def fill(key: dict[str, Any], value: dict[str, Any]) -> None:
    """Puts another type in place of a key's own; its description and default stay."""
    kept = {name: key[name] for name in ("description", "default") if name in key}
    key.clear()
    key.update(value | kept)


def component_schema(registry: str, name: str) -> dict[str, Any]:
    """Returns the JSON schema of a component, with the descriptions that its docstring gives."""
    cls, own = REGISTRIES[registry].get(name), schema(registry, name).model_json_schema()
    own["description"], texts = field_docs.of_component(cls)
    texts["kind"] = own["description"].split("\n\n")[0]
    for option, key in own["properties"].items():
        key |= {"description": texts[option]} if option in texts else {}
    return own


def _component(registry: str, optional: bool) -> dict[str, Any]:
    branches: list[dict[str, Any]] = []
    for name in REGISTRIES[registry].names():
        own = component_schema(registry, name)
        own.pop("title", None)
        own["required"] = ["kind", *(n for n in own.get("required", []) if n != "kind")]
        branches.append(own)
    partial = {"type": "object", "not": {"required": ["kind"]}, "description": "options of the kind that the base has"}
    return {"anyOf": [*branches, partial, *([{"type": "null"}] if optional else [])]}
