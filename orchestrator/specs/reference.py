"""docs/spec.md: every key of a table's file with its type, default and description (`nmt-ablate schema --format md`)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import SLOTS
from orchestrator.specs.describe import type_of
from orchestrator.specs.json_schema import HEADS, component_schema, definitions
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

TITLES = {
    "TableSource": "source",
    "SweepSpec": "sweep",
    "Resources": "sweep.resources",
    "Scheduler": "sweep.scheduler",
    "Retrain": "sweep.scheduler.retrain",
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
    "Subword": "data.subword",
    "Truncate": "data.truncate",
    "VocabSizes": "data.vocab",
    "Stage": "batch.stages",
    "DropoutSpec": "model.dropout",
    "EncoderSpec": "model.encoder and model.decoder",
    "DecoderSpec": "model.encoder and model.decoder",
    "Schedule": "optim.schedule",
    "Restart": "optim.restart",
    "LengthPenalty": "decode.length_penalty",
    "DataSpec": "data",
    "BatchSpec": "batch",
    "ModelSpec": "model",
    "OptimSpec": "optim",
    "TrainSpec": "train",
    "DecodeSpec": "decode",
    "ScoreSpec": "score",
}
"""Class of a part -> its heading."""


def page() -> str:
    """Returns docs/spec.md."""
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


def _part(name: str, found: dict[str, Any], done: set[str], level: str) -> Iterator[str]:
    """Yields a part with a row for each key, then the parts that it refers to and that are not `done`."""
    if name in done:
        return
    done.add(name)
    part = found[name]
    yield f"{level} {TITLES[name]}\n\n{_text(part['description'])}\n"
    yield "| key | type | default | description |\n|---|---|---|---|"
    for key, value in part["properties"].items():
        required = key in part.get("required", [])
        yield f"| `{key}` | {_type(value)} | {'required' if required else _default(value)} | {_text(value.get('description', ''))} |"
    yield ""
    for other in dict.fromkeys(re.findall(r"#/\$defs/(\w+)", json.dumps(part["properties"]))):
        if other in TITLES and TITLES[other] not in ("Grid", "Claims", *SECTIONS):
            yield from _part(other, found, done, "###")


def _registry(registry: str, places: list[str], description: str) -> Iterator[str]:
    """Yields the components of a registry: a row for each kind, and one for each of its options. places: its keys."""
    yield f"### {registry}\n\n{', '.join(f'`{place}`' for place in places)}: {_text(description)}\n"
    yield "| kind | option | type | default | description |\n|---|---|---|---|---|"
    for name in REGISTRIES[registry].names():
        found = component_schema(registry, name)
        yield f"| `{name}` | | | | {_text(found['properties']['kind']['description'])} |"
        for option, key in found["properties"].items():
            if option != "kind":
                default = "required" if option in found.get("required", []) else _default(key)
                yield f"| | `{option}` | {_type(key)} | {default} | {_text(key.get('description', ''))} |"
    yield ""


def _type(key: dict[str, Any]) -> str:
    words = type_of(key, lambda name: _link(TITLES.get(name, name)), lambda value: f"`{value}`")
    rest = words.removesuffix(" | null")
    return rest.replace(" | ", ", ") + (" or null" if rest != words else "")


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
