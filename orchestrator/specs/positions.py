"""Source positions of keys, tracked through merges of several files, and their form in error messages."""

import difflib
import functools
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.registry import REGISTRIES
from orchestrator.errors import UserError
from orchestrator.paths import in_search_spaces, places
from orchestrator.safe_text import visible

KeyPath = tuple[str | int, ...]
OVERRIDE = re.compile(r"[a-z]\w*(\.\w+)+=.+")
"""A text that was meant as `--set KEY=VALUE`."""
_REPLACED = frozenset([*REGISTRIES, "schedule"])
"""Keys whose value is replaced as a whole by one of another `kind`."""


@dataclass(frozen=True)
class Position:
    """Where a value was written: `where` is `FILE:LINE` or `--set KEY=VALUE`, `path` the key path there."""

    where: str
    path: KeyPath

    def under(self, *rest: str | int) -> "Position":
        return Position(self.where, (*self.path, *rest))

    def line(self, message: str) -> str:
        """Returns one error line: `FILE:LINE: KEY.PATH: message`."""
        return f"{self.where}: {dotted(self.path)}: {message}" if self.path else f"{self.where}: {message}"


@dataclass
class Located:
    """Nested plain data with the source position of every key, mergeable in layers. `home` is the position of keys written nowhere."""

    data: dict[str, Any]
    home: Position
    positions: dict[KeyPath, Position] = field(default_factory=dict)

    @classmethod
    def of(cls, document: "Document", path: KeyPath, keep: Callable[[str], bool] = lambda name: True) -> "Located":
        """Returns the mapping at `path` of a document (empty for null), limited to the keys that `keep` accepts."""
        value = functools.reduce(operator.getitem, path, document.data) or {}
        data = {name: item for name, item in value.items() if keep(name)}
        positions = {p[len(path) :]: m for p, m in document.positions.items() if len(p) > len(path) and p[: len(path)] == path}
        return cls(data, document.at(path), {p: m for p, m in positions.items() if p[0] in data})

    def merged(self, over: "Located") -> "Located":
        """Returns a layer with `over` on top, which shares the parts that stay. Nothing may change them in place.

        Mappings merge; other values, and a component or schedule of another `kind`, are replaced.
        """
        replaced: set[KeyPath] = set()
        data = _merge(self.data, over.data, (), replaced)
        cuts = {len(path) for path in replaced}
        kept = {p: m for p, m in self.positions.items() if replaced.isdisjoint([p[:cut] for cut in cuts])}
        return Located(data, over.home, kept | over.positions)

    def at(self, path: KeyPath) -> Position:
        """Returns the position of `path`, or of its nearest written ancestor."""
        for cut in range(len(path), 0, -1):
            if path[:cut] in self.positions:
                return self.positions[path[:cut]].under(*path[cut:])
        return self.home.under(*path)

    def line(self, path: KeyPath, message: str) -> str:
        """Returns one error line. A message about a whole mapping points to the key that it names, if that key was written."""
        words = set(message.replace(";", " ").replace(",", " ").split())
        named = [m for p, m in self.positions.items() if len(p) == len(path) + 1 and p[:-1] == path and p[-1] in words]
        if named and message.split()[0] not in ("unknown", "found", "missing;"):
            return max(named, key=lambda m: (m.where.startswith("--set"), len(m.path))).line(message)
        return self.at(path).line(message)


class Document(Located):
    """Plain data of a file, with the position of every key and list item; the empty path is the first line.

    problems: error lines of what was read from the data.
    """

    data: Any

    def __init__(self, file: str, data: Any) -> None:
        super().__init__(data, Position(f"{file}:1", ()))
        self.file = file
        self.problems: list[str] = []

    def below(self, *path: str | int) -> dict[KeyPath, Any]:
        """Returns the items of the mapping or list at `path` by their paths; none if there is neither."""
        value = functools.reduce(lambda part, name: _items(part).get(name), path, self.data)
        return {(*path, name): item for name, item in _items(value).items()}

    def wrong(self, path: KeyPath, message: str) -> None:
        self.problems.append(self.at(path).line(message))


def _items(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}


def _merge(base: dict[str, Any], over: dict[str, Any], path: KeyPath, replaced: set[KeyPath]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        here, old = (*path, name), base.get(name)
        of_a_kind = isinstance(old, dict) and isinstance(value, dict) and value.get("kind", old.get("kind")) == old.get("kind")
        if isinstance(old, dict) and isinstance(value, dict) and (of_a_kind or name not in _REPLACED):
            merged[name] = _merge(old, value, here, replaced)
        else:
            replaced.add(here)
            merged[name] = value
    return merged


def dotted(path: KeyPath) -> str:
    """Formats a key path, as in `rows.row9.model.regularizers[0].weight`; unprintable characters are escaped."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{shown(part)}"
    return text


def shown(text: str, limit: int = 80) -> str:
    """Formats user text for a message: one line, no control characters, cut at `limit` characters."""
    safe = visible(text[: limit + 1])
    return safe if len(safe) <= limit else safe[:limit] + "..."


def display(file: Path) -> str:
    """Formats a path for messages, relative to the working directory if it is below it."""
    try:
        text = str(file.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):
        text = str(file)
    return shown(text, 300)


def describe(value: Any) -> str:
    """Describes a value for messages: `'fast'`, `a list`, `true`, `3`."""
    if isinstance(value, str):
        return f"'{shown(value, 60)}'"
    if isinstance(value, bool):
        return "true" if value else "false"
    return {dict: "a mapping", list: "a list", type(None): "nothing (null)"}.get(type(value), str(value))


def existing_file(text: str) -> Path:
    """Returns the file, or the product's at the same place in `search_spaces`. UserError: there is none."""
    path = Path() if "\0" in text else in_search_spaces(Path(text))
    if "\0" in text or not path.exists():
        raise UserError(f"{shown(text, 200)}: {no_such_file(path)}")
    return path


def no_such_file(path: Path, *others: str) -> str:
    """Returns what to say of a missing file: its folders, if there are two, and the nearest of their files. others: more names."""
    folders = [place.parent for place in places(path)]
    known = {*others, *(file.name for folder in folders for file in folder.glob("[!.]*.yaml"))}
    where = f" in {' or '.join(map(display, folders))}" if len(folders) > 1 else ""
    return f"no such file{where}" + (f"; {nearest(path.name, known)}" if known else "")


def nearest(name: str, known: Iterable[str], meant: str | None = None) -> str:
    """Returns the names that were expected, and the most similar one. meant: a name that is known to be the right one."""
    names = sorted(known)
    if not names:
        return "expected none"
    if len(names) == 1:
        listed = f"expected {names[0]}, the only name"
    else:
        listed = f"expected one of {', '.join(names)}" if len(names) <= 24 else f"expected one of {len(names)} names"
    close = difflib.get_close_matches(name.lower()[:100], [n.lower() for n in names], n=1, cutoff=0.5)
    match = meant or next((n for n in names if close and n.lower() == close[0]), None)
    foreign = sorted({f"U+{ord(c):04X}" for c in name[:100] if ord(c) > 127})
    note = f"; the name contains {', '.join(foreign)}" if foreign else ""
    return listed + note + (f"; did you mean {match}?" if match else "")
