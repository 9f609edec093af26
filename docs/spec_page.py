"""Writes docs/spec.md to stdout: every key of a table's file with its type, default and description. `make docs` calls it."""

import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from models.registry import REGISTRIES
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import SLOTS
from orchestrator.specs.describe import type_of
from orchestrator.specs.json_schema import component_schema, definitions
from orchestrator.specs.table import FigureHeader

TEXT = Path(__file__).with_name("spec_page.txt")
"""The prose of the page: its introduction and that of its section on components."""
ROOTS = {
    "TableHead": ("Head of a table", ""),
    "RowHead": ("Rows", ""),
    "FigureHeader": ("Figures", ""),
    "TemplateHead": ("Templates", ""),
    "GridSection": ("Grid", "grid."),
    "Claim": ("Claims", ""),
}
"""Class of a part -> its heading, and what stands before its keys in the headings below it."""


def page() -> str:
    found, (introduction, components) = definitions(), TEXT.read_text(encoding="utf-8").split("\n## Components", 1)
    for name, key in itertools.product(("TableHead", "RowHead"), FigureHeader.model_fields):
        del found[name]["properties"][key]
    parts, titles = _parts(found)
    lines = [Template(introduction).substitute(sections=", ".join(_link(name) for name in SECTIONS))]
    for name, level in parts:
        part = found[name]
        lines += [f"{level} {titles[name]}\n\n{_text(part['description'])}\n", "| key | type | default | description |\n|---|---|---|---|"]
        lines += [*(f"| `{key}` | {_cells(key, value, part, titles)}" for key, value in part["properties"].items()), ""]
    lines.append(f"## Components{components}")
    for registry in REGISTRIES:
        places = [".".join(map(str, ("model", *path))) for path, its in SLOTS.items() if its == registry] or ["model.regularizers"]
        owner = found["DecoderSpec" if places[0].count(".") == 2 else "ModelSpec"]
        lines += _registry(registry, places, owner["properties"][places[0].rpartition(".")[2]]["description"], titles)
    return "\n".join(lines)


def _parts(found: dict[str, Any]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Returns (class of each part and the level of its heading, in order; class -> heading, which is the first key that refers to it)."""
    roots = ROOTS | {found["RunSpec"]["properties"][name]["$ref"].rpartition("/")[2]: (name, f"{name}.") for name in SECTIONS}
    titles = {name: title for name, (title, _) in roots.items()} | {"EncoderSpec": "model.decoder"}
    parts: list[tuple[str, str]] = []

    def add(name: str, path: str, level: str) -> None:
        parts.append((name, level))
        for key, value in found[name]["properties"].items():
            for other in re.findall(r"#/\$defs/(\w+)", json.dumps(value)):
                if other in found and other not in titles:
                    titles[other] = f"{path}{key}"
                    add(other, f"{path}{key}.", "###")

    for name, (_, path) in roots.items():
        add(name, path, "##")
    return parts, titles


def _registry(registry: str, places: list[str], description: str, titles: dict[str, str]) -> Iterator[str]:
    """Yields the components of a registry: a row for each kind, and one for each of its options. places: its keys."""
    yield f"### {registry}\n\n{', '.join(f'`{place}`' for place in places)}: {_text(description)}\n"
    yield "| kind | option | type | default | description |\n|---|---|---|---|---|"
    for name in REGISTRIES[registry].names():
        found = component_schema(registry, name)
        kind, *options = found["properties"].items()
        yield f"| `{name}` | | | | {_text(kind[1]['description'])} |"
        yield from (f"| | `{option}` | {_cells(option, key, found, titles)}" for option, key in options)
    yield ""


def _cells(name: str, key: dict[str, Any], owner: dict[str, Any], titles: dict[str, str]) -> str:
    words = type_of(key, lambda name: _link(titles.get(name, name)), lambda value: f"`{value}`")
    rest = words.removesuffix(" | null")
    type_ = rest.replace(" | ", ", ") + (" or null" if rest != words else "")
    default = "required" if name in owner.get("required", []) else f"`{json.dumps(key.get('default'))}`" if "$ref" not in key else ""
    default = default if default == '`""`' else default.replace('"', "")
    return f"{type_} | {default} | {_text(key.get('description', ''))} |"


def _link(heading: str) -> str:
    anchor = re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")
    return f"[{heading}](#{anchor})"


def _text(description: str) -> str:
    """Joins lines, and escapes what Markdown would take for its own outside of `code`."""
    parts = re.split(r"(`[^`]*`)", " ".join(description.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*|~]|<(?=\w))", r"\\\1", part) for part in parts)


if __name__ == "__main__":
    sys.stdout.write(page())
