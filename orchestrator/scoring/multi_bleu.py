"""Tokenised BLEU as the papers report it: the definition that Moses' `multi-bleu.perl` computes.

BLEU = BP * exp(1/4 * sum_{n=1..4} log p_n) over the corpus (Papineni et al. 2002), in percent. p_n: clipped n-gram precision without
smoothing, so BLEU is 0 where any p_n is 0. BP = min(1, exp(1 - r/c)), c = hypothesis tokens, r = sum of the closest reference lengths (of
two equally close ones the shorter).
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

MAX_ORDER = 4

# The script reads bytes: only ASCII white space separates tokens, and -lc changes only ASCII letters.
_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_COMPOUND = re.compile(r"([^ \t\n\r\f\v])-([^ \t\n\r\f\v])")


@dataclass(frozen=True)
class MultiBleu:
    """score and precisions in percent; lengths in tokens; signature names all that the figure depends on."""

    score: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    signature: str


def multi_bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False, split_compounds: bool = False
) -> MultiBleu:
    """`hypotheses`: one tokenised line a sentence; `references`: one list of such lines per reference stream (outer axis: the stream).

    ValueError where the counts of lines differ or there is no reference stream.
    """
    check_counts(hypotheses, references)
    correct, total = [0] * MAX_ORDER, [0] * MAX_ORDER
    hypothesis_length = reference_length = 0
    for hypothesis, *alternatives in zip(hypotheses, *references, strict=True):
        words = _words(hypothesis, lowercase, split_compounds)
        others = [_words(line, lowercase, split_compounds) for line in alternatives]
        hypothesis_length += len(words)
        reference_length += closest_length(len(words), [len(other) for other in others])
        for n in range(1, MAX_ORDER + 1):
            allowed: Counter[tuple[str, ...]] = Counter()
            for other in others:
                allowed |= _ngrams(other, n)
            counts = _ngrams(words, n)
            correct[n - 1] += (counts & allowed).total()
            total[n - 1] += counts.total()
    signature = "|".join(
        (
            "multi-bleu",
            f"nrefs:{len(references)}",
            f"case:{'lc' if lowercase else 'mixed'}",
            f"tok:{'data+compounds' if split_compounds else 'data'}",
            "smooth:none",
            "bp:closest",
        )
    )
    precisions = tuple(c / t if t else 0.0 for c, t in zip(correct, total, strict=True))
    penalty = brevity_penalty(hypothesis_length, reference_length)
    score = 0.0
    if reference_length and all(precisions):
        score = 100 * penalty * math.exp(sum(math.log(p) for p in precisions) / MAX_ORDER)
    return MultiBleu(score, tuple(100 * p for p in precisions), penalty, hypothesis_length, reference_length, signature)


def brevity_penalty(hypothesis_length: int, reference_length: int) -> float:
    """min(1, exp(1 - r/c)); 0 for an empty output of a non-empty reference and where there is no reference text at all."""
    if not hypothesis_length or not reference_length:
        return 0.0
    return min(1.0, math.exp(1 - reference_length / hypothesis_length))


def closest_length(length: int, alternatives: Sequence[int]) -> int:
    """The reference length closest to `length`; of two equally close ones the shorter."""
    return min(alternatives, key=lambda other: (abs(other - length), other))


def split_hyphenated(line: str) -> str:
    """WMT14 En-De compound splitting: `rich-text` becomes `rich ##AT##-##AT## text`.

    Source: tensor2tensor's `get_ende_bleu.sh` (after Luong et al. 2015); as there, matches do not overlap, so that `a-b-c` gives
    `a ##AT##-##AT## b-c`.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def lower_ascii(line: str) -> str:
    """A-Z become a-z and nothing else changes: what `lc` of bytes (multi-bleu) and `tr` (mteval-v13a) do."""
    return line.translate(_LOWER)


def check_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """ValueError where there is no reference stream or one has another number of lines than the hypotheses."""
    if not references:
        raise ValueError("no reference stream to score against")
    for number, stream in enumerate(references):
        if len(stream) != len(hypotheses):
            raise ValueError(f"{len(hypotheses)} hypotheses but {len(stream)} lines in reference stream {number}")


def _words(line: str, lowercase: bool, split_compounds: bool) -> list[str]:
    if split_compounds:
        line = split_hyphenated(line)
    if lowercase:
        line = lower_ascii(line)
    return [word for word in _SPACE.split(line) if word]


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))
