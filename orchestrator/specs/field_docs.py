"""Descriptions of keys, read from the source: the text below a field of a section, and the `Args:` of a component's docstring.

pydantic's own `use_attribute_docstrings` reads every source file at import, which each command would pay for.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema


def of_class(cls: type) -> dict[str, str]:
    """Returns field -> the text below it, in the class or the nearest of its bases that has one."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if file is not None and base.__module__.partition(".")[0] in ("orchestrator", "models"):
            found |= _of_file(file).get(base.__qualname__, {})
    return found


@functools.cache
def _of_file(file: str) -> dict[str, dict[str, str]]:
    """Returns class -> field -> the text below it."""
    classes = [node for node in ast.parse(Path(file).read_bytes()).body if isinstance(node, ast.ClassDef)]
    return {node.name: dict(text for text in map(_below, node.body, node.body[1:]) if text is not None) for node in classes}


def _below(field: ast.stmt, text: ast.stmt) -> tuple[str, str] | None:
    if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
        return None
    if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)):
        return None
    return field.target.id, " ".join(text.value.value.split())


def of_component(cls: type) -> tuple[str, dict[str, str]]:
    """Returns the docstring of a component without its `Args:`, and option -> description."""
    text, _, arguments = (inspect.getdoc(cls) or "").partition("\n\nArgs:\n")
    parts = re.split(r"^    (\w+): ", arguments, flags=re.MULTILINE)[1:]
    return text, {name: " ".join(words.split()) for name, words in zip(parts[::2], parts[1::2], strict=True)}


class _Described(GenerateJsonSchema):
    """Puts the description of every field of a section, and defaults that a factory makes, into its JSON schema."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        found, cls = super().model_schema(schema), schema["cls"]
        texts = of_class(cls)
        for name, key in found.get("properties", {}).items():
            if name in texts:
                key["description"] = texts[name]
            if cls.model_fields[name].default_factory is not None:
                key["default"] = cls.model_fields[name].get_default(call_default_factory=True)
        return found


def json_schema_of(section: type[BaseModel]) -> dict[str, Any]:
    """Returns the JSON schema of a section, with descriptions."""
    return section.model_json_schema(schema_generator=_Described)
