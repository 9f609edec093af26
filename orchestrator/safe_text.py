"""Escapes text for output: characters that a terminal or a page would interpret are replaced by escapes.

Applied to data, labels and arguments when they are printed; stored text is not changed.
"""

import json
import sys
from typing import Any

LOGGED: set[str] = set()
"""Lines that `log_once` has printed. A new command empties it."""


def visible(text: str) -> str:
    """Returns one line with control characters, bidirectional marks and lone surrogates escaped (`\\x1b`, `\\u202e`)."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def log(*lines: str) -> None:
    """Prints escaped lines on stderr."""
    for line in lines:
        print(visible(line), file=sys.stderr, flush=True)


def log_once(text: str) -> None:
    """`log`, but of equal lines only the first of a command."""
    if text not in LOGGED:
        LOGGED.add(text)
        log(text)


def markdown(text: str) -> str:
    """Escapes text for a line or a table cell of Markdown, including HTML."""
    return "".join(f"\\{c}" if c in "\\|*_`[]<>" else c for c in visible(" ".join(text.split())))


def json_text(value: Any, **options: Any) -> str:
    """`json.dumps` with all characters escaped that are not printable. ValueError for NaN and infinities."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
