"""Plain nested data whose every key knows where it was written; layers of it merge into one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.specs.positions import Document, KeyPath, Mark

_COMPONENT_KEYS = {
    "layer",
    "connection",
    "aggregation",
    "self_attention",
    "cross_attention",
    "bridge",
    "extra_encoder",
    "context",
    "schedule",
}


@dataclass
class Marked:
    """`home` is where the whole stands, for keys that nobody wrote."""

    data: dict[str, Any]
    home: Mark
    marks: dict[KeyPath, Mark] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, path: KeyPath, keep: Callable[[str], bool] = lambda name: True) -> Marked:
        """The mapping at `path` of a document (nothing there: an empty one), with the keys that `keep` accepts."""
        value: Any = document.data
        for part in path:
            value = value[part]
        data = {name: copy.deepcopy(item) for name, item in (value or {}).items() if keep(name)}
        marks = {p[len(path) :]: m for p, m in document.marks.items() if len(p) > len(path) and p[: len(path)] == path}
        return cls(data, document.mark(path), {p: m for p, m in marks.items() if p[0] in data})

    def merged(self, over: Marked) -> Marked:
        """`over` on top: mappings merge, everything else replaces. A component or schedule of a different `kind` replaces the whole."""
        data = copy.deepcopy(self.data)
        replaced: list[KeyPath] = []
        _merge(data, over.data, (), replaced)
        marks = {p: m for p, m in self.marks.items() if not any(p[: len(r)] == r for r in replaced)}
        return Marked(data, over.home, marks | over.marks)

    def mark(self, path: KeyPath) -> Mark:
        """Where `path` was written, or its nearest written ancestor."""
        for cut in range(len(path), 0, -1):
            if path[:cut] in self.marks:
                return self.marks[path[:cut]].under(*path[cut:])
        return self.home.under(*path)

    def line(self, path: KeyPath, message: str) -> str:
        """One error line. A message about a whole mapping points at the key in it that the message names, if one was written."""
        words = set(message.replace(";", " ").replace(",", " ").split())
        named = [m for p, m in self.marks.items() if len(p) == len(path) + 1 and p[:-1] == path and p[-1] in words]
        if named and message.split()[0] not in ("unknown", "found", "missing;"):
            return max(named, key=lambda m: (m.where.startswith("--set"), len(m.path))).line(message)
        return self.mark(path).line(message)


def _merge(base: dict[str, Any], over: dict[str, Any], path: KeyPath, replaced: list[KeyPath]) -> None:
    for name, value in over.items():
        here, old = (*path, name), base.get(name)
        if isinstance(value, dict) and isinstance(old, dict) and not _other_kind(name, old, value):
            _merge(old, value, here, replaced)
        else:
            replaced.append(here)
            base[name] = copy.deepcopy(value)


def _other_kind(name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    return name in _COMPONENT_KEYS and "kind" in new and new["kind"] != old.get("kind")
