"""How the lines of a corpus are written."""

from __future__ import annotations

from typing import Literal

Form = Literal["raw", "tokenised", "tokenised-escaped"]
"""How the lines of a corpus are written: running text, tokens between single spaces, or such tokens with `&apos;` for `'` and the like."""
RAW: Form = "raw"
ESCAPED: Form = "tokenised-escaped"
