"""Compares the form of corpus lines (raw, tokenised, escaped) with the catalogue entry, as tokenised text must not be tokenised again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from orchestrator.data.text import FileText
from orchestrator.errors import UserError
from orchestrator.specs import languages
from orchestrator.specs.corpora import CorpusEntry
from orchestrator.specs.positions import shown
from orchestrator.specs.text_form import ESCAPED, RAW, Form

MAX_LINES = 3000
MIN_LINES = 3
"""Maximum lines to read, and minimum lines with the same evidence to infer a form."""

_ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|#124|#91|#93);|(?<= )@-@(?= )")
_APART = re.compile(r"(?<=\s)[.,。、，](?=\s|$)")
_ATTACHED = re.compile(r"(?<=\w)[.,。、，](?=\s|$)")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_LONG = 8


@dataclass(frozen=True)
class Appearance:
    """Apparent form of some lines. example: number and text of the first line that shows it; None for raw text."""

    form: Form
    example: tuple[int, str] | None = None

    def __str__(self) -> str:
        words = {RAW: "like running text", ESCAPED: "tokenised and escaped"}.get(self.form, "tokenised")
        return f"looks {words}" + ("" if self.example is None else f" (line {self.example[0]}: {shown(self.example[1], 60)})")


def appearance(lines: Sequence[str]) -> Appearance | None:
    """Infers the form: tokenised if full stops and commas are separate, escaped if there are escapes like `&apos;`. None if unclear."""
    escaped = [i for i, line in enumerate(lines) if _ESCAPED.search(line)]
    apart = [i for i, line in enumerate(lines) if _APART.search(line)]
    attached = sum(_ATTACHED.search(line) is not None for line in lines)
    if len(apart) >= MIN_LINES and len(apart) > attached:
        form: Form = ESCAPED if len(escaped) >= MIN_LINES else "tokenised"
        first = escaped[0] if form == ESCAPED else apart[0]
        return Appearance(form, (first + 1, lines[first]))
    return Appearance(RAW) if attached >= MIN_LINES and attached > len(apart) else None


def unspaced(lines: Sequence[str]) -> bool:
    """Returns True for text in a script without spaces between words whose strings between spaces are too long for words on average."""
    text = " ".join(lines[:MAX_LINES])
    letters, words = len(text) - text.count(" "), len(text.split())
    return letters > 0 and len(_UNSPACED.findall(text)) > letters / 3 and letters > _LONG * words


def mismatch(lines: Sequence[str], form: Form) -> Appearance | None:
    """The apparent form if it differs from `form`, else None. An escaped corpus may have lines without escapes."""
    found = appearance(lines[:MAX_LINES])
    if found is None or found.form == form or (form == ESCAPED and found.form == "tokenised"):
        return None
    return found


def warnings(entry: CorpusEntry, data_dir: Path | None) -> list[str]:
    """Messages about files whose form differs from the entry's, and about unknown language codes."""
    if entry.generated is not None:
        return []
    messages = [f"{entry.name}: {side}: {doubt}" for side in ("src", "tgt") if (doubt := languages.unknown_code(getattr(entry, side)))]
    if entry.documents is not None:  # raw news highlights end in ` .`
        return messages
    for split in entry.splits:
        if entry.lacks([split], data_dir):
            continue
        text = FileText(entry, data_dir, [])
        if (named := entry.splits[split].raw) and not entry.raw_references(split, data_dir):
            messages.append(f"{named[0]}: no such file; detokenised figures of {split} are of the tokens, unescaped and detokenised")
        try:
            rows = list(islice(text.rows(split), MAX_LINES))
            raw = [lines[:MAX_LINES] for lines in text.raw(split)]
        except UserError:
            continue  # reported by the check of the file itself
        read = [(path, list(lines), entry.text) for path, lines in zip(text.where(split), zip(*rows, strict=True), strict=False)]
        read += [(str(path), lines, RAW) for path, lines in zip(entry.raw_references(split, data_dir), raw, strict=True)]
        for path, lines, form in read:
            if actual := mismatch(lines, form):
                messages.append(f"{path}: {actual}, and the entry says text: {form}; {consequence(form)}")
    return list(dict.fromkeys(messages))


def consequence(form: Form) -> str:
    """Describes what happens if the form of a text differs from `form`, that of its entry."""
    if form == RAW:
        return "data.tokenizer moses would tokenise it twice, and a metric of running text counts its tokens and escapes as words"
    return "it is not tokenised (`tokenised`, `tokenised-escaped`) or not unescaped (`tokenised`) where it should be"
