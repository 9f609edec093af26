"""Warnings about text that trains without an error, but is not what its owner thinks: leaks, repeats, swapped or shifted sides, markup."""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from unicodedata import is_normalized

import numpy as np

from orchestrator.data.text import CorpusText
from orchestrator.specs.positions import shown

SAMPLE, MARGIN = 2000, 0.1
"""Number of lines whose letter trigrams are compared; minimum difference in cosine to the other side of train for swapped sides."""
WINDOW, EVERY = 500, 16
"""Number of lines whose lengths are correlated; one of EVERY pairs (by its hash) is kept to find repeats."""
_TAGS = "seg|doc|refset|srcset|tstset|hl|p|url|keywords|talkid|title|description|speaker|reviewer|translator"
_BYTE = "[\u0080-\u009f\u00a1-\u00ba\u00bc-\u00bf€‚ƒ„†‡ˆ‰Š‹ŒŽ•˜™š›œžŸ]"
"""Second bytes of UTF-8 read as Latin-1 or CP1252, except characters that may follow a real `Ã` at a word's end (quotes, dashes, `»`)."""

_FAULTS = {
    "looks like UTF-8 encoded twice": re.compile(f"[ÃÐÑ]{_BYTE}|Â[\u00a1-\u00ba\u00bc-\u00bf]|â€|[à-ê]{_BYTE}{{2}}"),
    "is SGML": re.compile(rf"^\s*</?(?:{_TAGS})(?:\s[^<>]*)?>"),
    "has a byte order mark inside": re.compile("\ufeff"),
    "has a CR inside": re.compile("\r"),
}
_ANY = re.compile("|".join(pattern.pattern for pattern in _FAULTS.values()))
_NO_WORD = re.compile(r"[\W_]+")


@dataclass
class _Seen:
    """Statistics of a pass over a split: of the source and the first reference; faults are of every column."""

    lengths: tuple[array[int], array[int]] = field(default_factory=lambda: (array("i"), array("i")))
    trigrams: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    faults: Counter[tuple[int, str]] = field(default_factory=Counter)
    first: dict[tuple[int, str], tuple[int, str]] = field(default_factory=dict)
    composed: set[int] = field(default_factory=set)  # sides with composed letters
    decomposed: dict[int, tuple[int, int]] = field(default_factory=dict)  # column -> first line that is not in NFC, and their number
    sampled: int = 0
    distinct: set[int] = field(default_factory=set)

    def read(self, rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        """Yields the rows."""
        for number, row in enumerate(rows, 1):
            for column, line in enumerate(row):
                if not line.isascii():
                    self._note_form(min(column, 1), column, number, line)
                if (not line.isascii() or "<" in line or "\r" in line) and _ANY.search(line):
                    for fault in (name for name, pattern in _FAULTS.items() if pattern.search(line)):
                        self.faults[column, fault] += 1
                        self.first.setdefault((column, fault), (number, line))
            for side, line in enumerate(row[:2]):
                self.lengths[side].append(len(line))
                if number <= SAMPLE:
                    self.trigrams[side].update(trigrams(line))
            if not (digest := zlib.crc32("\t".join(row[:2]).encode())) % EVERY:
                self.sampled += 1
                self.distinct.add(digest)
            yield row

    def _note_form(self, side: int, column: int, number: int, line: str) -> None:
        if not is_normalized("NFC", line):
            first, count = self.decomposed.get(column, (number, 0))
            self.decomposed[column] = first, count + 1
        elif side not in self.composed and not is_normalized("NFD", line):
            self.composed.add(side)


class Watch:
    """Finds oddities while others read train. Reads the other splits at once. Raises UserError at a bad line."""

    def __init__(self, text: CorpusText, splits: Sequence[str]) -> None:
        self.text, self.seen = text, {split: _Seen() for split in splits}
        read = {split: self.seen[split].read(text.rows(split)) for split in splits if split != "train"}
        self.held = {split: {row[0].strip() for row in rows} for split, rows in read.items()}
        self.equal, self.alike = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        self.forms = defaultdict[str, list[tuple[str, str]]](list)  # plain source -> split and source of each that is held out
        for split, sources in self.held.items():
            for source in sources:
                self.forms[plain(source)].append((split, source))

    def train(self) -> Iterator[tuple[str, ...]]:
        """Yields the rows of train, and notes sources of other splits in it, equal or up to punctuation and case."""
        for row in self.seen["train"].read(self.text.rows("train")):
            source = row[0].strip()
            for split, own in self.forms.get(plain(source), ()):
                (self.equal if own == source else self.alike)[split].add(own)
            yield row

    def leaked(self) -> dict[str, list[int]]:
        """Split -> numbers of its sources that are in train too, of others that are up to punctuation and case, and of all."""
        sizes = {name: [len(self.equal[name]), len(self.alike[name] - self.equal[name]), len(all_)] for name, all_ in self.held.items()}
        return {split: size for split, size in sizes.items() if size[0] or size[1]}

    def warnings(self) -> list[str]:
        """A line for each oddity."""
        found = leaks(self.text.entry.name, self.leaked())
        composed = set().union(*(own.composed for own in self.seen.values()))
        for split, own in self.seen.items():
            where = self.text.where(split)
            for column, (number, count) in own.decomposed.items():
                if min(column, 1) in composed:
                    some = f"{where[column]}: line {number}: decomposed letters (not NFC), in {count:,} lines; others have composed ones"
                    found.append(f"{some}, so equal words differ; expected one form, as by normal_form: NFC in the corpus's file")
            for (column, fault), (number, line) in own.first.items():
                count = own.faults[column, fault]
                more = f", the first of {count:,} such lines" if count > 1 else ""
                found.append(f"{where[column]}: line {number} {fault}{more}: {shown(line, 60)}")
            if own.sampled >= 10 and 2 * len(own.distinct) <= own.sampled:
                share = 100 * (1 - len(own.distinct) / own.sampled)
                found.append(f"{self.text.entry.name}: about {share:.0f}% of the pairs of {split} repeat earlier ones")
            if split in self.held and "train" in self.seen and _swapped(own, self.seen["train"]):
                found.append(f"{where[0]} and {where[1]} look swapped: each is more like the other side of train")
            if shift := _shifted(own):
                found.append(f"{where[1]}: {shift}; expected a translation in the same line")
        return found


def leaks(corpus: str, leaked: Mapping[str, Sequence[int]]) -> list[str]:
    """Lines on `Watch.leaked`."""
    hows = "", " up to punctuation and case"
    each = [(split, n, size, how) for split, (*some, size) in leaked.items() for n, how in zip(some, hows, strict=True) if n]
    return [f"{corpus}: {n:,} sources of {split} ({100 * n / size:.1f}%) are in train too{how}" for split, n, size, how in each]


def trigrams(line: str) -> Iterator[str]:
    text = f" {line.lower()} "
    return (text[i : i + 3] for i in range(len(text) - 2))


def plain(line: str) -> str:
    """The line without punctuation and case."""
    return _NO_WORD.sub("", line.casefold()) or line


def _swapped(own: _Seen, train: _Seen) -> bool:
    def likeness(a: Counter[str], b: Counter[str]) -> float:
        norms = sum(n * n for n in a.values()) * sum(n * n for n in b.values())
        return float(sum(n * b[key] for key, n in a.items()) / norms**0.5) if norms else 0.0

    sides = zip(own.trigrams, train.trigrams, reversed(train.trigrams), strict=True)
    return len(own.lengths[0]) >= 20 and all(likeness(mine, other) > likeness(mine, same) + MARGIN for mine, same, other in sides)


def _shifted(own: _Seen) -> str | None:
    """Names the first window whose target lengths correlate far better with the source a line before or after."""
    for start in range(0, len(own.lengths[0]), WINDOW):
        source, target = (np.log1p(lengths[start : start + WINDOW]) for lengths in own.lengths)
        if len(source) < 50:
            break
        shifts = (source, target), (source[:-1], target[1:]), (source[1:], target[:-1])
        with np.errstate(invalid="ignore"):  # lines of one length: no correlation, NaN, no warning
            same, before, after = (float(np.corrcoef(a, b)[0, 1]) for a, b in shifts)
        if max(before, after) > same + max(0.3, 5 / len(source) ** 0.5):
            return f"near line {start + 1:,} the lengths fit the source one line {'before' if before > after else 'after'}"
    return None
