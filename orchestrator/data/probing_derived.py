"""Probing tasks that need no parser, derived from plain sentences as in SentEval: Length, WordContent, BigramShift.

Two differences: the bins of Length hold about equally many sentences of the text, and WordContent has as many target words as are
frequent enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from random import Random

from orchestrator.data.senteval import ProbingSet, split_up
from orchestrator.errors import UserError

TASKS = ("Length", "WordContent", "BigramShift")
BINS = 6
MOST_WORDS, MIN_LETTERS = 1000, 4
"""WordContent: maximum number of target words and minimum letters of each (SentEval's figures)."""
SKIPPED = 2
"""Number of skipped ranks before the first target, as a multiple of the number of targets (SentEval: 2,000 before 1,000)."""
EACH, SHARE = 20, 400
"""Minimum sentences of a target word: 20, and one in 400 of the text."""
LEAST = 30
"""Minimum sentences of a text."""


def derive(sentences: Sequence[str], seed: int = 1) -> dict[str, ProbingSet]:
    """Returns {task: instances}, split 80:10:10, from the distinct sentences of the text in an order drawn from `seed`.

    Words are separated by spaces. A task for which the text is too small or too uniform is absent. Raises UserError for fewer than 30
    sentences.
    """
    distinct = list(dict.fromkeys(" ".join(words) for line in sentences if (words := line.split())))
    if len(distinct) < LEAST:
        raise UserError(f"found {len(distinct)} distinct sentences; expected {LEAST} at least")
    Random(f"probing/{seed}").shuffle(distinct)
    made = {"Length": length(distinct), "WordContent": word_content(distinct), "BigramShift": bigram_shift(distinct, seed)}
    return {name: instances for name, instances in made.items() if len(set(instances["tr"].labels)) > 1 and all(instances.values())}


def length(sentences: Sequence[str]) -> ProbingSet:
    """Number of words of each sentence, in at most six bins with labels such as `9-12`."""
    counts = [len(sentence.split()) for sentence in sentences]
    ordered = sorted(counts)
    highs = sorted({ordered[(i + 1) * len(ordered) // BINS - 1] for i in range(BINS)})
    lows = [ordered[0], *(high + 1 for high in highs[:-1])]
    names = [str(high) if low == high else f"{low}-{high}" for low, high in zip(lows, highs, strict=True)]
    return split_up(sentences, [names[bisect_left(highs, count)] for count in counts])


def word_content(sentences: Sequence[str]) -> ProbingSet:
    """The only target word in each sentence. Other sentences are dropped, and all targets get as many sentences as the rarest one."""
    split = [[_bare(word) for word in sentence.lower().split()] for sentence in sentences]
    least = max(EACH, len(sentences) // SHARE)
    ranked = [word for word, _ in Counter(word for words in split for word in words).most_common()]
    for size in _sizes(len(ranked)):
        fit = (word for word in ranked[SKIPPED * size :] if len(word) >= MIN_LETTERS and word.isalpha())
        targets = set(islice(fit, size))
        own: dict[str, list[int]] = {}
        for i, words in enumerate(split):
            if len(found := [word for word in words if word in targets]) == 1:
                own.setdefault(found[0], []).append(i)
        fewest = min(map(len, own.values()), default=0)
        if len(own) == size and fewest >= least:
            chosen = sorted((i, word) for word, places in own.items() for i in places[:fewest])
            return split_up([sentences[i] for i, _ in chosen], [word for _, word in chosen])
    return split_up([], [])


def _sizes(words: int) -> list[int]:
    """Numbers of targets to try, in falling order."""
    return [size for size in (MOST_WORDS, 500, 200, 100, 50, 20, 10, 5) if (SKIPPED + 1) * size <= words]


def bigram_shift(sentences: Sequence[str], seed: int) -> ProbingSet:
    """Exchanges two neighbouring words in every other sentence (label I, else O), but neither the first word nor punctuation."""
    rng = Random(f"probing/bigram-shift/{seed}")
    texts: list[str] = []
    labels: list[str] = []
    for sentence in sentences:
        words = sentence.split()
        places = [i for i in range(1, len(words) - 1) if words[i] != words[i + 1] and all(_is_word(word) for word in words[i : i + 2])]
        if not places or '"' in sentence:
            continue
        if inverted := len(labels) % 2 == 1:
            i = rng.choice(places)
            words[i : i + 2] = words[i + 1], words[i]
        texts.append(" ".join(words))
        labels.append("I" if inverted else "O")
    return split_up(texts, labels)


def _is_word(text: str) -> bool:
    """Returns True for a word without punctuation at its ends."""
    return text[0].isalnum() and text[-1].isalnum()


def _bare(word: str) -> str:
    """The word without punctuation at its ends."""
    return word.strip("".join(c for c in set(word) if not c.isalnum()))
