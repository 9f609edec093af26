"""The built-in corpus: seeded sentence pairs of two invented languages."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from orchestrator.data.toy_grammar import Grammar, Token
from orchestrator.data.toy_lexicon import Lexicon
from orchestrator.specs.corpora import ToyParams

GENERATOR_VERSION = 1
"""Increased whenever equal parameters give different text."""

SPLITS = ("valid", "test", "train")
"""In order of generation: a later split leaves out the sources of the earlier ones."""

Pair = tuple[str, str]
Aligned = tuple[list[Token], list[Token]]


def manifest(params: ToyParams) -> dict[str, Any]:
    """Everything that the text depends on."""
    return {"generator": GENERATOR_VERSION, "parameters": params.model_dump(mode="json")}


def generate(params: ToyParams) -> dict[str, list[Pair]]:
    """`{"train": [(source, target), ..], "valid": .., "test": ..}`. No source sentence is in two splits; valid and test repeat none.

    A training set is a prefix of the longer one with otherwise equal parameters.
    """
    return {split: [(_text(a), _text(b)) for a, b in pairs] for split, pairs in aligned(params).items()}


def aligned(params: ToyParams) -> dict[str, list[Aligned]]:
    """As `generate`, in tokens with the grammar node that they come from."""
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
