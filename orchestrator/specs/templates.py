"""Templates: named parts of rows, shared by the rows of a file and of files that extend it.

With `templates: {e64: {model: {word_dim: 64}}}` and `use: [e64]` in a row, the templates merge in the given order onto the file's
sections, then the row's own keys merge onto the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from orchestrator.specs.check import SECTIONS, check
from orchestrator.specs.positions import Document, KeyPath, Located, describe, nearest, shown
from orchestrator.specs.schema import Strict
from orchestrator.specs.table import SEGMENT, SEGMENT_WORDS

HeadOf = Callable[..., Any]


class TemplateHead(Strict):
    """Head of a template: its keys other than the sections."""

    assumed: list[str] = Field(default_factory=list)
    """Dotted keys of the template that the paper does not state."""


@dataclass(frozen=True)
class Template:
    """Differences to the sections of a row. assumed: keys that the paper does not state."""

    spec: Located
    assumed: list[str]


def of_file(document: Document, head_of: HeadOf, problems: list[str]) -> dict[str, Template]:
    """Returns the templates defined in a file, and appends one line per problem to `problems`."""
    named = document.data.get("templates")
    found: dict[str, Template] = {}
    for name, value in named.items() if isinstance(named, dict) else ():
        path: KeyPath = ("templates", name)
        if not SEGMENT.fullmatch(name):
            where = document.at(path).where
            problems.append(f"{where}: templates: found the name '{shown(name)}'; expected {SEGMENT_WORDS}")
        elif not isinstance(value, dict):
            problems.append(document.at(path).line(f"found {describe(value)}; expected a mapping"))
        else:
            head = head_of(document, path, TemplateHead, [n for n in value if n not in SECTIONS], problems, extra=SECTIONS)
            spec = Located.of(document, path, lambda key: key in SECTIONS)
            for section in [n for n, item in spec.data.items() if not isinstance(item, dict)]:
                problems.append(spec.at((section,)).line(f"found {describe(spec.data.pop(section))}; expected a mapping"))
            found[name] = Template(spec, [] if head is None else head.assumed)
    return found


def used(
    names: list[str], templates: Mapping[str, Template], document: Document, path: KeyPath, shared: Located, problems: list[str]
) -> tuple[Located, list[str]]:
    """Returns the shared sections with the named templates on top, and the templates' `assumed` keys. `path` is that of the row."""
    spec, assumed = shared, []
    for i, name in enumerate(names):
        if name not in templates:
            problems.append(document.at((*path, "use", i)).line(f"found '{shown(name)}'; {nearest(name, templates)}"))
            continue
        spec = spec.merged(templates[name].spec)
        assumed += templates[name].assumed
    return spec, assumed


def misspelt(templates: Mapping[str, Template], rows: Mapping[str, list[str]], shared: Located) -> list[str]:
    """Returns error lines about unknown names in templates that no row uses, which no other check finds.

    Other errors are dropped, because a template is only a fragment of a row. rows: row name -> the templates it uses.
    """
    used_names = {name for names in rows.values() for name in names}
    lines: list[str] = []
    for name in templates.keys() - used_names:
        own = templates[name].spec
        places = tuple(f"{position.where}: " for position in own.positions.values())
        lines += [line for line in check(shared.merged(own)).problems if line.startswith(places) and ": unknown " in line]
    return lines
