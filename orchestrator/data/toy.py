"""The built-in corpus: seeded sentence pairs of two artificial languages."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from orchestrator.data.toy_grammar import Grammar, Token
from orchestrator.data.toy_lexicon import Lexicon
from orchestrator.specs.corpora import ToyParams

GENERATOR_VERSION = 1
"""Increased when equal parameters give different text."""

SPLITS = ("valid", "test", "train")
"""Splits in order of generation. A split excludes the sources of earlier ones."""

Pair = tuple[str, str]
Aligned = tuple[list[Token], list[Token]]


def manifest(params: ToyParams) -> dict[str, Any]:
    """Everything that determines the text."""
    return {"generator": GENERATOR_VERSION, "parameters": params.model_dump(mode="json")}


def generate(params: ToyParams) -> dict[str, list[Pair]]:
    """Generates {"train": [(source, target), ..], "valid": .., "test": ..}. No source is in two splits, or twice in valid or test.

    A training set is a prefix of any longer one with otherwise equal parameters.
    """
    return {split: [(_text(a), _text(b)) for a, b in pairs] for split, pairs in aligned(params).items()}


def aligned(params: ToyParams) -> dict[str, list[Aligned]]:
    """Like `generate`, but as tokens, each with its grammar node."""
    lexicon = Lexicon(params)
    used: set[str] = set()
    found: dict[str, list[Aligned]] = {}
    for split in SPLITS:
        count, held_out = getattr(params, split), split != "train"
        pairs: list[Aligned] = []
        for pair in _stream(params, lexicon, split):
            source = _text(pair[0])
            if source in used:
                continue
            if held_out:
                used.add(source)
            pairs.append(pair)
            if len(pairs) == count:
                break
        found[split] = pairs
    return found


def _stream(params: ToyParams, lexicon: Lexicon, split: str) -> Iterator[Aligned]:
    grammar = Grammar(params, lexicon, Random(f"toy-text/{params.seed}/{split}"))
    while True:
        yield grammar.sentence()


def _text(tokens: list[Token]) -> str:
    return " ".join(word for word, _ in tokens)
