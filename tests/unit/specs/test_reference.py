"""Every key of a table's file has a description, and docs/spec.md is made from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from models.registry import REGISTRIES
from orchestrator.specs import field_docs
from orchestrator.specs.base import Strict
from orchestrator.specs.components import schema
from orchestrator.specs.describe import type_of
from orchestrator.specs.json_schema import json_schema
from orchestrator.specs.reference import page
from orchestrator.specs.schema import DropoutSpec


class Base(Strict):
    own: int = 1
    """Of the base."""
    twice: int = 1
    """Of the base."""


class Section(Base):
    twice: int = 2
    """Of the section,
    on two lines."""
    bare: list[int] = Field(default_factory=lambda: [3])
    named: int = 1


def keys(node: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of a JSON schema: (path, node)."""
    if isinstance(node, dict):
        yield from ((f"{at}/{name}", key) for name, key in node.get("properties", {}).items())
        for name, value in node.items():
            yield from keys(value, f"{at}/{name}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from keys(value, f"{at}/{i}")


def test_every_key_is_described() -> None:
    found = list(keys(json_schema()))
    assert len(found) > 400
    assert [path for path, key in found if not key.get("description", "").strip()] == []


def test_options_and_their_descriptions_have_the_same_names() -> None:
    for kind, registry in REGISTRIES.items():
        for name in registry.names():
            described = field_docs.of_component(registry.get(name))[1]
            assert list(described) == [option for option in schema(kind, name).model_fields if option != "kind"], f"{kind}/{name}"


def test_the_page_is_made_from_the_schema(repository: Path) -> None:
    assert (repository / "docs" / "spec.md").read_text(encoding="utf-8") == page(), "run make docs"


def test_the_page_has_each_key_once() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    for key in ("d_model", "label_smoothing", "failed_below", "extends", "pinned", "loguniform", "margin", "residual"):
        wanted = {"residual": 3}.get(key, 1)  # model.dropout, a side, and a connection
        assert sum(line.startswith(f"| `{key}` ") for line in rows) == wanted, key


def test_links_of_the_page_have_headings() -> None:
    text = page()
    headings = {line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")}
    anchors = {"".join(c for c in heading if c.isalnum() or c in " _-").replace(" ", "-") for heading in headings}
    links = {part.partition(")")[0] for part in text.split("](#")[1:]}
    assert links - anchors == set() and len(links) > 30


def test_a_field_is_described_by_the_text_below_it() -> None:
    assert field_docs.of_class(Section) == {}  # a class of the tests is not of the product
    texts = field_docs._of_file(__file__)
    assert texts["Section"] == {"twice": "Of the section, on two lines."}
    assert texts["Base"] == {"own": "Of the base.", "twice": "Of the base."}
    made = field_docs.json_schema_of(Section)["properties"]
    assert made["bare"]["default"] == [3] and made["twice"]["default"] == 2


def test_a_section_has_the_descriptions_of_its_bases() -> None:
    assert set(field_docs.of_class(DropoutSpec)) == {"embedding", "residual", "attention", "ffn"}


def test_the_arguments_of_a_docstring() -> None:
    class Thing:
        """x + y.

        More.

        Args:
            a: the first, see
                b: a word with a colon.
            b: the second.
        """

    assert field_docs.of_component(Thing) == ("x + y.\n\nMore.", {"a": "the first, see b: a word with a colon.", "b": "the second."})


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 1_000_000}, "integer >= 1"),
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "number in [0, 1)"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number in (0, 1]"),
        ({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, "a | b | null"),
        ({"type": "array", "items": {"$ref": "#/$defs/Stage"}}, "list of Stage"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "mapping to string"),
        ({"type": "object", "additionalProperties": True}, "mapping"),
        ({}, "any"),
    ],
)
def test_types_in_words(key: dict[str, Any], words: str) -> None:
    assert type_of(key) == words
