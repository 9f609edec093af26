"""Warnings about text that trains without an error, but is not what its owner thinks: leaks, repeats, swapped or shifted sides, markup."""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.data.text import CorpusText
from orchestrator.specs.positions import shown

SAMPLE, WINDOW, SIXTEENTH = 2000, 500, 16
"""Lines whose letters are compared; lines whose lengths are correlated at once; one pair of this many is remembered to find repeats."""

MARGIN = 0.1
"""Two sides are swapped if both are this much more like (cosine of letter trigrams) the other side of train than like their own."""

_TAGS = "seg|doc|refset|srcset|tstset|hl|p|url|keywords|talkid|title|description|speaker|reviewer|translator"
_BYTE = "[\u0080-\u009f\u00a1-\u00ba\u00bc-\u00bf€‚ƒ„†‡ˆ‰Š‹ŒŽ•˜™š›œžŸ]"
"""Second bytes of UTF-8 read as Latin-1 or CP1252, but for those that may follow a real `Ã` at a word's end (quotes, dashes, `»`)."""

_FAULTS = {
    "looks like UTF-8 encoded twice": re.compile(f"[ÃÐÑ]{_BYTE}|Â[\u00a1-\u00ba\u00bc-\u00bf]|â€|[à-ê]{_BYTE}{{2}}"),
    "is SGML": re.compile(rf"^\s*</?(?:{_TAGS})(?:\s[^<>]*)?>"),
    "has a byte order mark inside": re.compile("\ufeff"),
    "has a CR inside": re.compile("\r"),
}
_NO_WORD = re.compile(r"[\W_]+")


@dataclass
class _Seen:
    """What a pass over a split keeps: of the source and the first reference, but faults of every column."""

    lengths: tuple[array[int], array[int]] = field(default_factory=lambda: (array("i"), array("i")))
    trigrams: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    faults: dict[tuple[int, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    examples: dict[tuple[int, str], str] = field(default_factory=dict)
    sampled: int = 0
    distinct: set[int] = field(default_factory=set)

    def read(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """Yields the sources."""
        for number, row in enumerate(rows, 1):
            for column, line in enumerate(row):
                if not line.isascii() or "<" in line or "\r" in line:
                    for fault in (name for name, pattern in _FAULTS.items() if pattern.search(line)):
                        self.faults[column, fault].append(number)
                        self.examples.setdefault((column, fault), line)
            for side, line in enumerate(row[:2]):
                self.lengths[side].append(len(line))
                if number <= SAMPLE:
                    text = f" {line.lower()} "
                    self.trigrams[side].update(text[i : i + 3] for i in range(len(text) - 2))
            if not (digest := zlib.crc32("\t".join(row[:2]).encode())) % SIXTEENTH:
                self.sampled += 1
                self.distinct.add(digest)
            yield row[0].strip()


def warnings(text: CorpusText, splits: Sequence[str]) -> list[str]:
    """A line for each oddity of these splits, after one pass over each. Raises UserError at a bad line."""
    seen = {split: _Seen() for split in splits}
    held = {split: set(seen[split].read(text.rows(split))) for split in splits if split != "train"}
    found = _leaks(text, held, seen["train"]) if "train" in seen else []
    for split, own in seen.items():
        where = text.where(split)
        for (column, fault), lines in own.faults.items():
            more = f", the first of {len(lines):,} such lines" if len(lines) > 1 else ""
            found.append(f"{where[column]}: line {lines[0]} {fault}{more}: {shown(own.examples[column, fault], 60)}")
        if own.sampled >= 10 and 2 * len(own.distinct) <= own.sampled:
            share = 100 * (1 - len(own.distinct) / own.sampled)
            found.append(f"{text.entry.name}: about {share:.0f}% of the pairs of {split} repeat earlier ones")
        if split in held and "train" in seen and _swapped(own, seen["train"]):
            found.append(f"{where[0]} and {where[1]} look swapped: each is more like the other side of train")
        if (shift := _shifted(own)) is not None:
            line, by = shift
            found.append(
                f"{where[1]}: near line {line:,} the lengths fit the source one line {by}; expected a translation in the same line"
            )
    return found


def _leaks(text: CorpusText, held: dict[str, set[str]], train: _Seen) -> list[str]:
    """Lines for held-out sources that are also in train, equal or up to punctuation and case."""
    forms, equal, alike = defaultdict[str, list[tuple[str, str]]](list), defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for split, sources in held.items():
        for source in sources:
            forms[_plain(source)].append((split, source))
    for source in train.read(text.rows("train")):
        for split, own in forms.get(_plain(source), ()):
            (equal if own == source else alike)[split].add(own)
    found = []
    for split, sources in held.items():
        close = len(alike[split] - equal[split])
        for count, how in ((len(equal[split]), ""), (close, " up to punctuation and case")):
            if count:
                found.append(f"{text.entry.name}: {count:,} sources of {split} ({100 * count / len(sources):.1f}%) are in train too{how}")
    return found


def _plain(line: str) -> str:
    return _NO_WORD.sub("", line.casefold()) or line


def _swapped(own: _Seen, train: _Seen) -> bool:
    def likeness(a: Counter[str], b: Counter[str]) -> float:
        norms = sum(n * n for n in a.values()) * sum(n * n for n in b.values())
        return float(sum(n * b[key] for key, n in a.items()) / norms**0.5) if norms else 0.0

    pairs = list(zip(own.trigrams, train.trigrams, reversed(train.trigrams), strict=True))
    return all(likeness(mine, other) > likeness(mine, same) + MARGIN for mine, same, other in pairs)


def _shifted(own: _Seen) -> tuple[int, str] | None:
    """The first line of the first window whose target lengths correlate far better with the source a line `before` or `after`."""
    for start in range(0, len(own.lengths[0]), WINDOW):
        source, target = (np.log1p(lengths[start : start + WINDOW]) for lengths in own.lengths)
        if len(source) < 50:
            break
        with np.errstate(invalid="ignore"):  # lines of one length: no correlation, NaN, no warning
            same, before, after = (
                float(np.corrcoef(a, b)[0, 1]) for a, b in ((source, target), (source[:-1], target[1:]), (source[1:], target[:-1]))
            )
        if max(before, after) > same + max(0.3, 5 / len(source) ** 0.5):
            return start + 1, "before" if before > after else "after"
    return None
