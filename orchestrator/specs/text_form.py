"""Form of the lines of a corpus."""

from typing import Literal

Form = Literal["raw", "tokenised", "tokenised-escaped"]
"""Running text, tokens separated by single spaces, or such tokens with escapes (`&apos;` for `'`)."""
RAW: Form = "raw"
ESCAPED: Form = "tokenised-escaped"
