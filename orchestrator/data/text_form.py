"""What lines look like, beside what the catalogue's entry says: a tokenised corpus that is taken for raw text is tokenised twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from orchestrator.data.text import FileText
from orchestrator.errors import UserError
from orchestrator.specs import languages
from orchestrator.specs.corpora import Entry
from orchestrator.specs.text_form import ESCAPED, RAW, Form

LOOKED_AT = 3000
FEWEST = 3
"""Lines of a text that are read, and of them that must agree before anything is said."""

_ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|#124|#91|#93);|(?<= )@-@(?= )")
_APART = re.compile(r"(?<=\s)[.,。、，](?=\s|$)")
_ATTACHED = re.compile(r"(?<=\w)[.,。、，](?=\s|$)")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_LONG = 8


@dataclass(frozen=True)
class Looks:
    """`example`: number and text of the first line that shows it; of raw text there is none."""

    form: Form
    example: tuple[int, str] | None = None

    def __str__(self) -> str:
        words = {RAW: "like running text", ESCAPED: "tokenised and escaped"}.get(self.form, "tokenised")
        return f"looks {words}" + ("" if self.example is None else f" (line {self.example[0]}: {_short(self.example[1])})")


def looks(lines: Sequence[str]) -> Looks | None:
    """None where too few lines show anything. Tokens are told by full stops and commas that stand apart, escapes by `&apos;` and such."""
    escaped = [i for i, line in enumerate(lines) if _ESCAPED.search(line)]
    apart = [i for i, line in enumerate(lines) if _APART.search(line)]
    attached = sum(_ATTACHED.search(line) is not None for line in lines)
    if len(apart) >= FEWEST and len(apart) > attached:
        form: Form = ESCAPED if len(escaped) >= FEWEST else "tokenised"
        first = escaped[0] if form == ESCAPED else apart[0]
        return Looks(form, (first + 1, lines[first]))
    return Looks(RAW) if attached >= FEWEST and attached > len(apart) else None


def unspaced(lines: Sequence[str]) -> bool:
    """Text of a script that writes no spaces between words, as it is: most of what stands between spaces is longer than any word."""
    text = " ".join(lines[:LOOKED_AT])
    letters, words = len(text) - text.count(" "), len(text.split())
    return letters > 0 and len(_UNSPACED.findall(text)) > letters / 3 and letters > _LONG * words


def misread(lines: Sequence[str], form: Form) -> Looks | None:
    """What lines look like where that is not `form`, their entry's. Text without any escape may be that of an escaped corpus."""
    found = looks(lines[:LOOKED_AT])
    if found is None or found.form == form or (form == ESCAPED and found.form == "tokenised"):
        return None
    return found


def warnings(entry: Entry, data_dir: Path | None) -> list[str]:
    """Complete lines: files that are not written as the entry says, and language codes that are not known."""
    if entry.generated is not None:
        return []
    found = [f"{entry.name}: {side}: {doubt}" for side in ("src", "tgt") if (doubt := languages.unknown_code(getattr(entry, side)))]
    if data_dir is None or not data_dir.is_dir() or entry.documents is not None:  # highlights of news end in ` .` as they are
        return found
    for split in entry.splits:
        if entry.lacks([split], data_dir):
            continue
        text = FileText(entry, data_dir, [])
        if (named := entry.splits[split].raw) and not entry.raw_references(split, data_dir):
            place = data_dir / entry.folders[0] / named[0]
            found.append(f"{place}: no such file; detokenised figures of {split} are of the tokens, unescaped and detokenised")
        try:
            rows = list(islice(text.rows(split), LOOKED_AT))
            raw = [lines[:LOOKED_AT] for lines in text.raw(split)]
        except UserError:
            continue  # said of the file itself
        read = [(path, list(lines), entry.text) for path, lines in zip(text.where(split), zip(*rows, strict=True), strict=False)]
        read += [(str(path), lines, RAW) for path, lines in zip(entry.raw_references(split, data_dir), raw, strict=True)]
        for path, lines, form in read:
            if odd := misread(lines, form):
                found.append(f"{path}: {odd}, and the entry says text: {form}; {consequence(form)}")
    return list(dict.fromkeys(found))


def consequence(form: Form) -> str:
    """What comes of text that is not written as its entry says."""
    if form == RAW:
        return "data.tokenizer moses would tokenise it twice, and a metric of running text counts its tokens and escapes as words"
    return "it is not tokenised (`tokenised`, `tokenised-escaped`) or not unescaped (`tokenised`) where it should be"


def _short(line: str) -> str:
    return line if len(line) <= 60 else line[:57] + "..."
