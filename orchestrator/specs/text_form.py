"""Form of the lines of a corpus."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

Form = Literal["raw", "tokenised", "tokenised-escaped"]
"""Running text, tokens separated by single spaces, or such tokens with escapes (`&apos;` for `'`)."""
Pieces = Literal["bpe", "sentencepiece", "opennmt"]
"""Subwords in the lines: marked by `@@` at the end, by U+2581 at the start of words, or by U+FFED where they join."""
RAW: Form = "raw"
ESCAPED: Form = "tokenised-escaped"
MARKS: dict[Pieces, re.Pattern[str]] = {
    "bpe": re.compile(r"(?<=\S)@@(?: |$)"),
    "sentencepiece": re.compile("(?:^| )\u2581"),
    "opennmt": re.compile(" ?\uffed ?"),
}
ESCAPE = re.compile(r"&(?:apos|quot|amp|lt|gt|#124|#91|#93);")
NormalForm = Literal["NFC"]


def normalised(lines: Iterable[str], form: NormalForm | None) -> list[str]:
    """The lines in a Unicode normal form; unchanged without one."""
    return [line if form is None else unicodedata.normalize(form, line) for line in lines]


def join(line: str, pieces: Pieces) -> str:
    """The words of a line of pieces."""
    if pieces == "sentencepiece":
        return line.replace(" ", "").replace("\u2581", " ").strip()
    return MARKS[pieces].sub("", line)


def not_running_text(line: str) -> str | None:
    """Names the subword mark or the escape in a line; None if it has none."""
    marks = [("subword mark", mark) for mark in MARKS.values()]
    found = ((what, pattern.search(line)) for what, pattern in [*marks, ("escape", ESCAPE)])
    return next((f"the {what} '{match[0].strip()}'" for what, match in found if match), None)
