"""The built-in corpus: seeded sentence pairs of two invented languages, and what a word-by-word dictionary makes of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

from orchestrator.data.toy_grammar import Grammar, Token
from orchestrator.data.toy_lexicon import Lexicon
from orchestrator.specs.corpora import ToyParams

GENERATOR_VERSION = 1
"""Raised whenever equal parameters give other text."""

SPLITS = ("valid", "test", "train")
"""In the order of their claims: a later split leaves out the sources of the earlier ones."""

Pair = tuple[str, str]
Aligned = tuple[list[Token], list[Token]]


def manifest(params: ToyParams) -> dict[str, Any]:
    """What decides the text, without generating any."""
    return {"generator": GENERATOR_VERSION, "parameters": params.model_dump(mode="json")}


def generate(params: ToyParams) -> dict[str, list[Pair]]:
    """`{"train": [(source, target), ..], "valid": .., "test": ..}`. No source sentence is in two splits; valid and test repeat none.

    A training set is a prefix of the longer one with otherwise equal parameters.
    """
    return {split: [(_text(a), _text(b)) for a, b in pairs] for split, pairs in aligned(params).items()}


def aligned(params: ToyParams) -> dict[str, list[Aligned]]:
    """As `generate`, as tokens that carry their node."""
    lexicon = Lexicon(params)
    claimed: set[str] = set()
    found: dict[str, list[Aligned]] = {}
    for split in SPLITS:
        count, held_out = getattr(params, split), split != "train"
        pairs: list[Aligned] = []
        for pair in _stream(params, lexicon, split):
            source = _text(pair[0])
            if source in claimed:
                continue
            if held_out:
                claimed.add(source)
            pairs.append(pair)
            if len(pairs) == count:
                break
        found[split] = pairs
    return found


def _stream(params: ToyParams, lexicon: Lexicon, split: str) -> Iterator[Aligned]:
    grammar = Grammar(params, lexicon, Random(f"toy-text/{params.seed}/{split}"))
    while True:
        yield grammar.sentence()


def dictionary(params: ToyParams, pairs: list[Aligned]) -> dict[str, str]:
    """Each source word of `pairs` with its most frequent translation (maybe several words, maybe none); ties go to the first seen."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for a, b in pairs:
        by_node: dict[int, list[str]] = defaultdict(list)
        for word, node in b:
            by_node[node].append(word)
        for word, node in a:
            counts[word][" ".join(by_node.get(node, ()))] += 1
    return {word: translations.most_common(1)[0][0] for word, translations in counts.items()}


def dictionary_bleu(params: ToyParams, split: str = "test") -> float:
    """sacreBLEU (13a) of translating `split` word by word with the dictionary of the training set; unknown words are copied."""
    from sacrebleu.metrics.bleu import BLEU

    corpus = aligned(params)
    known = dictionary(params, corpus["train"])
    hypotheses = [" ".join(w for token, _ in a if (w := known.get(token, token))) for a, _ in corpus[split]]
    return float(BLEU(force=True).corpus_score(hypotheses, [[_text(b) for _, b in corpus[split]]]).score)


def _text(tokens: list[Token]) -> str:
    return " ".join(word for word, _ in tokens)
