"""Every key of a table's file has a description, and docs/spec.md is made from them."""

import re
import runpy
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs import json_schema as schemas
from orchestrator.specs.components import schema
from orchestrator.specs.json_schema import json_schema

page = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "spec_page.py"))["page"]


def keys(node, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
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
            described, options = schemas.component_texts(registry.get(name))[1], schema(kind, name).model_fields
            assert [option for option in options if option != "kind" and option not in described] == [], f"{kind}/{name}"
            own = re.findall(r"^ {4}(\w+): ", cleandoc(registry.get(name).__doc__).partition("Args:")[2], flags=re.MULTILINE)
            assert [option for option in own if option not in options] == [], f"{kind}/{name}"


def test_the_page_is_made_from_the_schema(repository) -> None:
    assert (repository / "docs" / "spec.md").read_text(encoding="utf-8") == page(), "run make docs"


def test_links_of_the_page_have_headings() -> None:
    text = page()
    headings = {line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")}
    anchors = {"".join(c for c in heading if c.isalnum() or c in " _-").replace(" ", "-") for heading in headings}
    links = {part.partition(")")[0] for part in text.split("](#")[1:]}
    assert links - anchors == set() and len(links) > 30
