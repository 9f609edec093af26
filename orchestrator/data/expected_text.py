"""The catalogue's facts on a corpus's text, and differences of the text: numbers of pairs, sha256, and the form of the lines.

Tokenised text must not be tokenised again, and escaped text must be unescaped for scores.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.data.integrity import file_hash, file_lines
from orchestrator.data.store import Prepared
from orchestrator.data.text import CorpusText
from orchestrator.errors import UserError
from orchestrator.specs import languages
from orchestrator.specs.corpora import CorpusEntry, load_entry
from orchestrator.specs.positions import shown
from orchestrator.specs.text_form import ESCAPE, ESCAPED, RAW, Form

TRAINING = ("train", "valid")
WORDS = {"train": "training pairs", "valid": "validation pairs"}

Text = dict[str, Any]
"""{"pairs": {split: count}, "sha256": {split: [source, each reference]}} of the text found for a corpus.

Of a training also "leaked": of each held-out split, sources that train has too (`oddities.Watch.leaked`).
"""


def of_prepared(prepared: Prepared, splits: Collection[str] = TRAINING) -> Text:
    sizes = {split: size for split, size in prepared.stats["splits"].items() if split in splits}
    pairs = {split: int(size["pairs"]) + sum(int(n) for n in size["dropped"].values()) for split, size in sizes.items()}
    text = prepared.manifest["text"]
    sums = {} if "generator" in text else text | prepared.manifest["tests"]
    digests = {split: [one for one in of_split if re.fullmatch("[0-9a-f]{64}", str(one))] for split, of_split in sums.items()}
    return {"pairs": pairs, "sha256": {split: of_split for split, of_split in digests.items() if split in pairs}}


def of_files(entry: CorpusEntry, data_dir: Path | None, splits: Collection[str]) -> Text:
    """The text of the files; empty for CSV files, whose records are counted during preparation."""
    names = [] if entry.csv is not None else [name for name in entry.splits if name in splits and not entry.lacks([name], data_dir)]
    paths = {name: entry.locate(name, data_dir) for name in names}
    return {
        "pairs": {name: file_lines(own[0]) for name, own in paths.items()},
        "sha256": {name: [file_hash(path) for path in own] for name, own in paths.items()},
    }


def unexpected(corpus: str, text: Mapping[str, Any]) -> list[str]:
    """A line for each split that differs from its catalogue entry; none for a corpus without an entry."""
    try:
        return differences(load_entry(corpus), text)
    except UserError:
        return []


def differences(entry: CorpusEntry, text: Mapping[str, Any]) -> list[str]:
    pairs, sums = text.get("pairs") or {}, text.get("sha256") or {}
    lines = []
    for name, split in entry.splits.items():
        found = pairs.get(name)
        if split.pairs is not None and found is not None and found != split.pairs:
            lines.append(f"{entry.name} has {found:,} {WORDS.get(name, f'pairs of {name}')} here, {split.pairs:,} expected")
        elif split.sha256 is not None and name in sums:
            for file, one, other in zip_longest(split.files, sums[name], split.sha256, fillvalue="none"):
                if one != other:
                    difference = f"{file} has sha256 {one[:16]}.., {other[:16]}.. expected"
                    lines.append(f"{entry.name}: the text of {name} here is not the expected one: {difference}")
                    break
    return lines


MAX_LINES = 3000
MIN_LINES = 3
"""Maximum lines to read, and minimum lines with the same evidence to infer a form."""

_ESCAPED = re.compile(rf"{ESCAPE.pattern}|(?<= )@-@(?= )")
_APART = re.compile(r"(?<=\s)[.,。、，](?=\s|$)")
_ATTACHED = re.compile(r"(?<=\w)[.,。、，](?=\s|$)")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_LONG = 8


class Appearance(NamedTuple):
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
    fits = found is None or found.form == form or (form == ESCAPED and found.form == "tokenised")
    return None if fits else found


def form_warnings(entry: CorpusEntry, data_dir: Path | None) -> list[str]:
    """Messages about files whose form (raw, tokenised, escaped) differs from the entry's, and about unknown language codes."""
    if entry.generated is not None:
        return []
    messages = [f"{entry.name}: {side}: {doubt}" for side in ("src", "tgt") if (doubt := languages.unknown_code(getattr(entry, side)))]
    if entry.documents is not None:  # raw news highlights end in ` .`
        return messages
    for split in entry.splits:
        if entry.lacks([split], data_dir):
            continue
        text = CorpusText(entry, data_dir)
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
    if form == RAW:
        return "data.tokenizer moses would tokenise it twice, and a metric of running text counts its tokens and escapes as words"
    return "it is not tokenised (`tokenised`, `tokenised-escaped`) or not unescaped (`tokenised`) where it should be"
