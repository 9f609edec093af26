"""Form of the lines of a corpus."""

import unicodedata
from collections.abc import Iterable
from typing import Literal

Form = Literal["raw", "tokenised", "tokenised-escaped"]
"""Running text, tokens separated by single spaces, or such tokens with escapes (`&apos;` for `'`)."""
Pieces = Literal["bpe", "sentencepiece", "opennmt"]
"""Subwords in the lines: marked by `@@` at the end, by U+2581 at the start of words, or by U+FFED where they join."""
RAW: Form = "raw"
ESCAPED: Form = "tokenised-escaped"
NormalForm = Literal["NFC"]


def normalised(lines: Iterable[str], form: NormalForm | None) -> list[str]:
    """The lines in a Unicode normal form; unchanged without one."""
    return [line if form is None else unicodedata.normalize(form, line) for line in lines]
