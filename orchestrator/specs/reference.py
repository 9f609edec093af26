"""docs/spec.md: every key of a table's file with its type, default and description (`schema --format md`), and `describe`."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from models.registry import REGISTRIES
from orchestrator.errors import UserError
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import MAX_INT, SLOTS
from orchestrator.specs.json_schema import HEADS, component_schema, definitions
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.table import FigureHeader

INTRODUCTION = """# Keys of a table's file

Made by `nmt-ablate schema --format md` from the descriptions in the code (`make docs`). `nmt-ablate schema` prints the same as a JSON
schema for editors, `nmt-ablate new` writes a commented table, `nmt-ablate show ROW` a row with all its keys, `nmt-ablate describe` a
component with all that is known of it.

A table's file has a [head](#head-of-a-table), [rows](#rows), and seven sections that its rows share:
{sections}.
A row may have any of these sections, with what differs:

```yaml
extends: ../quickstart.yaml              # sections of another file, to start from
source: {{paper: mine, table: gates}}      # the address of a row is mine/gates/ROW
model: {{d_model: 128}}                    # a section: of every row
templates:
  wide: {{model: {{d_ff: 1024}}}}            # a named part of rows
rows:
  baseline: {{}}
  dense:
    label: dense connection
    use: [wide]
    model: {{encoder: {{connection: {{kind: dense}}}}}}
```

A later layer changes the keys that it names: the file that is extended, the file's sections, a row's templates, the row itself, its profile
(`--profile`), `--set`. Mappings merge key by key; lists, plain values, and a component or schedule of another `kind` are replaced as a
whole. An unknown key, a wrong type or a number out of bounds is an error with its line. A key whose type has `null` may be null.
"""

COMPONENTS = """## Components

A component is a mapping `{kind: NAME, ..}` with its options; without `kind`, options change those of the component that the row would
have otherwise. Encoder and decoder have the same ones. In the equations, x is what a layer or sub-layer reads, y what a sub-layer gives,
h_l (or H^l) the output of layer l, h_0 the embedded words, L the number of layers, d or D `d_model`, LN a layer norm, s the sigmoid where
nothing else is said. [CONTRIBUTING.md](../CONTRIBUTING.md) says how to write one.
"""

BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
TITLES = {
    "TableHead": "Head of a table",
    "RowHead": "Rows",
    "FigureHeader": "Figures",
    "TemplateHead": "Templates",
    "GridSection": "Grid",
    "Axis": "grid.axes",
    "Range": "grid.axes: uniform and loguniform",
    "Exclusion": "grid.exclude",
    "Claim": "Claims",
    "CorpusFiles": "data.corpus by paths",
    "EncoderSpec": "model.encoder and model.decoder",
    "DecoderSpec": "model.encoder and model.decoder",
}
"""Class of a part -> its heading, if that is not its first key."""


def page() -> str:
    found = definitions()
    for name, key in itertools.product(("TableHead", "RowHead"), FigureHeader.model_fields):
        del found[name]["properties"][key]
    of_run = [found["RunSpec"]["properties"][name]["$ref"].rpartition("/")[2] for name in SECTIONS]
    lines = [INTRODUCTION.format(sections=", ".join(_link(name) for name in SECTIONS))]
    done: set[str] = {"EncoderSpec"}
    for name in (*(head.__name__ for head in HEADS[:-1]), "Claim", *of_run):
        lines += _part(name, found, done, "##")
    lines.append(COMPONENTS)
    for registry in REGISTRIES:
        places = [".".join(map(str, ("model", *path))) for path, its in SLOTS.items() if its == registry] or ["model.regularizers"]
        owner = found["DecoderSpec" if places[0].count(".") == 2 else "ModelSpec"]
        lines += _registry(registry, places, owner["properties"][places[0].rpartition(".")[2]]["description"])
    return "\n".join(lines)


@functools.cache
def _titles() -> dict[str, str]:
    found, titles = definitions(), dict(TITLES)

    def add(name: str, path: str) -> None:
        for key, value in found[name]["properties"].items():
            for other in _references(value):
                if other in found and other not in titles:
                    titles[other] = f"{path}{key}"
                    add(other, f"{path}{key}.")

    add("TableHead", "")
    add("RunSpec", "")
    return titles


def _references(schema: Any) -> list[str]:
    return list(dict.fromkeys(re.findall(r"#/\$defs/(\w+)", json.dumps(schema))))


def _part(name: str, found: dict[str, Any], done: set[str], level: str) -> Iterator[str]:
    """Yields a part with a row for each key, then the parts that it refers to and that are not `done`."""
    if name in done:
        return
    done.add(name)
    part = found[name]
    yield f"{level} {_titles()[name]}\n\n{_text(part['description'])}\n"
    yield "| key | type | default | description |\n|---|---|---|---|"
    yield from (f"| `{key}` | {_cells(key, value, part)}" for key, value in part["properties"].items())
    yield ""
    for other in _references(part["properties"]):
        if _titles().get(other, "Grid") not in ("Grid", "Claims", *SECTIONS):
            yield from _part(other, found, done, "###")


def _registry(registry: str, places: list[str], description: str) -> Iterator[str]:
    """Yields the components of a registry: a row for each kind, and one for each of its options. places: its keys."""
    yield f"### {registry}\n\n{', '.join(f'`{place}`' for place in places)}: {_text(description)}\n"
    yield "| kind | option | type | default | description |\n|---|---|---|---|---|"
    for name in REGISTRIES[registry].names():
        found = component_schema(registry, name)
        kind, *options = found["properties"].items()
        yield f"| `{name}` | | | | {_text(kind[1]['description'])} |"
        yield from (f"| | `{option}` | {_cells(option, key, found)}" for option, key in options)
    yield ""


def _cells(name: str, key: dict[str, Any], owner: dict[str, Any]) -> str:
    words = type_of(key, lambda name: _link(_titles().get(name, name)), lambda value: f"`{value}`")
    rest = words.removesuffix(" | null")
    type_ = rest.replace(" | ", ", ") + (" or null" if rest != words else "")
    default = "required" if name in owner.get("required", []) else _default(key)
    return f"{type_} | {default} | {_text(key.get('description', ''))} |"


def _default(key: dict[str, Any]) -> str:
    value = key.get("default")
    if "$ref" in key:
        return ""
    return f"`{json.dumps(value)}`" if value == "" else f"`{json.dumps(value)}`".replace('"', "")


def _link(heading: str) -> str:
    anchor = re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")
    return f"[{heading}](#{anchor})"


def _text(description: str) -> str:
    """Joins lines, and escapes what Markdown would take for its own outside of `code`."""
    parts = re.split(r"(`[^`]*`)", " ".join(description.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*|~]|<(?=\w))", r"\\\1", part) for part in parts)


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
