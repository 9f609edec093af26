"""Text of data, labels and arguments as outputs show it: characters that a terminal or a page would act on become escapes.

Every output passes through here when it is printed; what is stored stays as it is.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def visible(text: str) -> str:
    """One line: control characters, bidirectional marks and lone surrogates as escapes (`\\x1b`, `\\u202e`)."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def log(text: str) -> None:
    """One line on stderr, escaped."""
    print(visible(text), file=sys.stderr, flush=True)


def markdown(text: str) -> str:
    """Escaped for a line or cell of Markdown, HTML included."""
    return "".join(f"\\{c}" if c in "\\|*_`[]<>" else c for c in visible(" ".join(text.split())))


def json_text(value: Any, **options: Any) -> str:
    """`json.dumps` with printable characters as they are and all others escaped. ValueError for NaN and infinities."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
