"""JSON schema of table files, for editors."""

from __future__ import annotations

import copy
from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import SLOTS, WHOLE_SLOTS, schema
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table import RowHead, TableHead
from orchestrator.specs.templates import TemplateHead


def json_schema() -> dict[str, Any]:
    """Returns the schema (draft 2020-12). Sections are differences to a base, so none of their keys is required."""
    spec = RunSpec.model_json_schema()
    definitions: dict[str, Any] = spec["$defs"]
    for name in definitions:
        definitions[name].pop("required", None)
    for path, registry in SLOTS.items():
        owner = {"encoder": "EncoderSpec", "decoder": "DecoderSpec"}.get(str(path[0])) if len(path) == 2 else "ModelSpec"
        optional = registry in WHOLE_SLOTS and registry != "bridge"
        definitions[str(owner)]["properties"][str(path[-1])] = _component(registry, optional)
    definitions["ModelSpec"]["properties"]["regularizers"] = {"type": "array", "items": _component("regularizer", False)}
    sections = {name: spec["properties"][name] for name in SECTIONS}
    table, row = TableHead.model_json_schema(), RowHead.model_json_schema()
    for head in (table, row):
        head["properties"]["also"]["additionalProperties"] = {"anyOf": [sections["score"], {"type": "null"}]}
    definitions |= table.pop("$defs", {}) | row.pop("$defs", {})
    entry = {"type": ["object", "null"], "additionalProperties": False, "properties": row["properties"] | copy.deepcopy(sections)}
    template = {"type": "object", "additionalProperties": False, "properties": TemplateHead.model_json_schema()["properties"] | sections}
    named = {name: {"type": "object", "additionalProperties": one} for name, one in (("templates", template), ("rows", entry))}
    properties = table["properties"] | sections | named
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nmt-ablate table",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": definitions,
    }


def _component(registry: str, optional: bool) -> dict[str, Any]:
    branches: list[dict[str, Any]] = []
    for name in REGISTRIES[registry].names():
        own = schema(registry, name).model_json_schema()
        own.pop("title", None)
        own["required"] = ["kind", *(n for n in own.get("required", []) if n != "kind")]
        branches.append(own)
    partial = {"type": "object", "not": {"required": ["kind"]}, "description": "options of the kind that the base has"}
    return {"anyOf": [*branches, partial, *([{"type": "null"}] if optional else [])]}
