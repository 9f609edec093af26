"""Text of data, labels and arguments as outputs show it: what a terminal or a page would act on is shown as an escape.

Every output passes through here at its edge; what is stored stays as it is. rich is imported where it is used.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def visible(text: str) -> str:
    """One line: control characters, marks that turn text around and lone surrogates as escapes (`\\x1b`, `\\u202e`)."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def say(text: str) -> None:
    """A line for people, on stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def cell(text: object) -> str:
    """For a table of rich's, whose markup it is none of."""
    from rich.markup import escape

    return escape(visible(str(text)))


def markdown(text: str) -> str:
    """For a line or cell of Markdown, which may hold HTML: no emphasis, link, image, tag or cell of its own."""
    return "".join(f"\\{c}" if c in "\\|*_`[]<>" else c for c in visible(" ".join(text.split())))


def json_text(value: Any, **options: Any) -> str:
    """`json.dumps` with printable characters as they are and all others escaped. ValueError for NaN and infinities."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
