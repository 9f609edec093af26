"""Templates: named parts of rows, shared by the rows of a file and of files that extend it.

With `templates: {e64: {model: {word_dim: 64}}}` and `use: [e64]` in a row, the templates merge in the given order onto the file's
sections, then the row's own keys merge onto the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from orchestrator.specs.base import Strict
from orchestrator.specs.check import check
from orchestrator.specs.positions import Document, KeyPath, Located, nearest, shown


class TemplateHead(Strict):
    """Head of a template: its keys other than the sections."""

    assumed: list[str] = Field(default_factory=list)
    """Dotted keys of the template that the paper does not state."""


@dataclass(frozen=True)
class Template:
    """Differences to the sections of a row. assumed: keys that the paper does not state."""

    spec: Located
    assumed: list[str]


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
