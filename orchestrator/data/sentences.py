"""Documents: texts of several sentences, one document per line, with sentences joined by ` <q> `.

Each source sentence ends with EOS (the last with the usual EOS). MARK_ID separates target sentences, because EOS would end the output.
"""

import re
from itertools import chain, groupby
from pathlib import Path
from typing import Literal

from orchestrator.data.subword import EOS, Segmenter

MARK, MARK_ID = "<q>", 4
MARKS = (EOS, MARK_ID)
"""Ends of sentences in a document."""
JOINT = f" {MARK} "
RULE = 1
"""Version of `split`, increased when its output changes."""

_TITLES = (
    "Mr Mrs Ms Dr Prof Rev Sen Rep Gov Gen Col Capt Lt Sgt Cpl Maj Cmdr Adm Pres Hon Supt Det Insp St Mt Ft vs No Nos Fig Jan Feb Mar Apr"
)
_MORE = "Aug Sept Sep Oct Nov Dec Ave Blvd Rd approx est e.g i.e cf al"
_ABBREVIATIONS = frozenset(f"{_TITLES} {_MORE}".split())
_END = re.compile(r"""(?<=[.!?])(?P<close>["'”’)\]]*)\s+(?=["'“‘(\[]*[A-Z0-9£$€])""")
_INITIAL = re.compile(r"(?:[A-Za-z]\.)*[A-Z]")


def split(text: str) -> list[str]:
    """Splits running text into sentences by rule.

    A sentence ends at a line end, or at `.`, `!` or `?` (and closing quotes or brackets) before white space and an upper-case letter, digit
    or currency sign (with opening quotes or brackets). A full stop after a listed abbreviation or initials (`J.`, `U.S.`) ends none.
    """
    found = []
    for line in text.splitlines():
        start = 0
        for match in _END.finditer(line):
            if not match["close"] and _abbreviated(line[start : match.start()]):
                continue
            found.append(line[start : match.end("close")])
            start = match.end()
        found.append(line[start:])
    return [" ".join(sentence.split()) for sentence in found if sentence.strip()]


def _abbreviated(sentence: str) -> bool:
    if not sentence.endswith(".") or sentence.endswith(".."):
        return False
    word = sentence.split()[-1].rstrip(".!?").lstrip("\"'“‘([")
    return word in _ABBREVIATIONS or _INITIAL.fullmatch(word) is not None


def line_of(text: str, how: Literal["rule", "lines"]) -> str:
    """A document as one line. how: `rule` splits with `split`; with `lines`, each line of the text is a sentence."""
    text = text.replace("\0", " ").replace(MARK, " ")
    sentences = split(text) if how == "rule" else [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return JOINT.join(sentences)


def sentences_of(line: str) -> list[str]:
    """The sentences of a line; inverse of `line_of`."""
    return [part for sentence in line.split(MARK) if (part := " ".join(sentence.split()))]


class DocumentSegmenter:
    """Makes a segmenter of documents from one of sentences. Implements `Segmenter`."""

    def __init__(self, segmenter: Segmenter, side: str) -> None:
        self.segmenter, self.size, self.mark = segmenter, segmenter.size, EOS if side == "src" else MARK_ID

    def encode(self, lines: list[str]) -> list[list[int]]:
        documents = [sentences_of(line) for line in lines]
        flat = iter(self.segmenter.encode([sentence for document in documents for sentence in document]))
        return [list(chain.from_iterable([*next(flat), self.mark] for _ in document))[:-1] for document in documents]

    def decode(self, ids: list[list[int]]) -> list[str]:
        parts = [[list(part) for is_end, part in groupby(line, lambda i: i in MARKS) if not is_end] for line in ids]
        flat = iter(self.segmenter.decode([part for document in parts for part in document]))
        return [JOINT.join(text for text in (next(flat) for _ in document) if text.strip()) for document in parts]

    def save(self, path: Path) -> None:
        self.segmenter.save(path)
