"""Where keys of a file stand, and the words of error messages about them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.safe_text import visible

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Mark:
    """Where a value was written: `where` is `FILE:LINE` or `--set KEY=VALUE`; `path` is the key path there."""

    where: str
    path: KeyPath

    def under(self, *rest: str | int) -> Mark:
        return Mark(self.where, (*self.path, *rest))

    def line(self, message: str) -> str:
        """One error line: `FILE:LINE: KEY.PATH: message`."""
        return f"{self.where}: {dotted(self.path)}: {message}" if self.path else f"{self.where}: {message}"


@dataclass
class Document:
    """Plain data of a file and the mark of every key and list item in it (the empty path: its first line)."""

    file: str
    data: Any
    marks: dict[KeyPath, Mark] = field(default_factory=dict)

    def mark(self, path: KeyPath) -> Mark:
        """The mark of `path`, or of its nearest ancestor followed by the rest of the path."""
        for cut in range(len(path), 0, -1):
            if path[:cut] in self.marks:
                return self.marks[path[:cut]].under(*path[cut:])
        return Mark(f"{self.file}:1", path)


def dotted(path: KeyPath) -> str:
    """`rows.row9.model.regularizers[0].weight`; odd characters are shown escaped."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{shown(part)}"
    return text


def shown(text: str, limit: int = 80) -> str:
    """Text of the user's for a message: one line, no control characters, cut at `limit`."""
    safe = visible(text[: limit + 1])
    return safe if len(safe) <= limit else safe[:limit] + "..."


def display(file: Path) -> str:
    """A path as messages show it: relative to the working directory where it lies below it."""
    try:
        text = str(file.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):
        text = str(file)
    return shown(text, 300)


def describe(value: Any) -> str:
    """What was found, for messages: `'fast'`, `a list`, `true`, `3`."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"'{shown(value, 60)}'" if isinstance(value, str) else str(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """`expected one of a, b; did you mean a?` for an unknown name."""
    names = sorted(known)
    if not names:
        return "expected none"
    if len(names) == 1:
        listed = f"expected {names[0]}, the only name"
    else:
        listed = f"expected one of {', '.join(names)}" if len(names) <= 24 else f"expected one of {len(names)} names"
    close = difflib.get_close_matches(name.lower()[:100], [n.lower() for n in names], n=1, cutoff=0.5)
    match = next((n for n in names if close and n.lower() == close[0]), None)
    foreign = sorted({f"U+{ord(c):04X}" for c in name[:100] if ord(c) > 127})
    note = f"; the name contains {', '.join(foreign)}" if foreign else ""
    return listed + note + (f"; did you mean {match}?" if match else "")
