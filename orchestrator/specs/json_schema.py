"""JSON schema of table files, for editors and for docs/spec.md (docs/spec_page.py).

Descriptions come from the source: the text below a field of a section, and the `Args:` of a component's docstring. pydantic's own
`use_attribute_docstrings` reads every source file at import, which each command would pay for.
"""

import ast
import functools
import inspect
import itertools
import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from models.registry import REGISTRIES
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import SLOTS, schema
from orchestrator.specs.grid.schema import GridSection
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table import FigureHeader, RowHead, TableHead, TemplateHead

HEADS = (TableHead, RowHead, FigureHeader, TemplateHead, GridSection, RunSpec)


@functools.cache
def field_texts(cls: type) -> dict[str, str]:
    """Returns field -> the text below it, in the class or the nearest of its bases that has one."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith(("orchestrator.", "models.")):
            (node,) = ast.parse(inspect.getsource(base)).body
            for pair in itertools.pairwise(node.body):  # type: ignore[attr-defined]
                match pair:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = " ".join(text.split())
    return found


def component_texts(cls: type) -> tuple[str, dict[str, str]]:
    """Returns the docstring of a component without its `Args:`, and option -> description, also of base classes."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text, _, arguments = inspect.cleandoc(base.__doc__ or "").partition("\n\nArgs:\n")
        parts = re.split(r"^    (\w+): ", arguments, flags=re.MULTILINE)[1:]
        texts |= {name: " ".join(words.split()) for name, words in zip(parts[::2], parts[1::2], strict=True)}
    return text, texts


class _Described(GenerateJsonSchema):
    """Puts the description of every field of a section, and defaults that a factory makes, into its JSON schema."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        found, cls = super().model_schema(schema), schema["cls"]
        texts = field_texts(cls)
        for name, key in found.get("properties", {}).items():
            if name in texts:
                key["description"] = texts[name]
            if cls.model_fields[name].default_factory is not None:
                key["default"] = cls.model_fields[name].get_default(call_default_factory=True)
        return found


def section_schema(section: type[BaseModel]) -> dict[str, Any]:
    return section.model_json_schema(schema_generator=_Described)


def definitions() -> dict[str, Any]:
    """Returns class -> JSON schema of every section and head; components and the grid are references to `#/$defs/NAME`."""
    schemas = {head.__name__: section_schema(head) for head in HEADS}
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
    for name in section_schema(RunSpec)["$defs"]:
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
    cls, own = REGISTRIES[registry].get(name), schema(registry, name).model_json_schema()
    own["description"], texts = component_texts(cls)
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
