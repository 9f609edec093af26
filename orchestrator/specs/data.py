"""Schema of the section `data`: a corpus and its preprocessing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from orchestrator.specs.base import Positive, Strict
from orchestrator.specs.corpus_files import Corpus


class Subword(Strict):
    """Subword segmentation learned on the training text."""

    kind: Literal["bpe", "unigram", "word"] = "bpe"
    """How text is segmented: byte-pair encoding, a unigram language model, or whole words."""
    size: Positive = 8000
    """Number of pieces of a vocabulary, including its 4 specials."""
    joint: bool = True
    """Whether one vocabulary serves both sides."""
    merges: Literal["own", "joint"] = "own"
    """joint: merges are learned on the text of both sides, but each side has its own vocabulary of the pieces that it uses (as in
    subword-nmt and fairseq); own: otherwise."""

    @model_validator(mode="after")
    def _merges(self) -> Subword:
        if self.merges == "joint" and (self.joint or self.kind == "word"):
            raise ValueError(f"merges is joint; expected own with {'joint true' if self.joint else 'kind word'}")
        return self


class VocabSizes(Strict):
    """Declared vocabulary sizes, for parameter counts without data. Prepared data takes precedence."""

    src: Positive | None = None
    """Number of source subwords, specials included; null: unknown until the data are prepared."""
    tgt: Positive | None = None
    """Number of target subwords, specials included; null: unknown until the data are prepared."""


class Truncate(Strict):
    """Maximum subwords of each side, in every split; references stay whole. Sentence ends count, the final EOS does not."""

    src: Positive | None = None
    """Subwords of a source that are kept; null: all."""
    tgt: Positive | None = None
    """Subwords of a target that are kept; null: all."""


class DataSpec(Strict):
    """A corpus and its preprocessing."""

    corpus: Corpus
    """Name of a corpus of `search_spaces/data/`, or a mapping with the paths of its files (docs/own-corpus.md)."""
    subword: Subword = Subword()
    """Subword segmentation."""
    tokenizer: Literal["none", "moses"] = "none"
    """Tokenisation in front of the subwords; none: the text is taken as it is."""
    lowercase: bool = False
    """Whether all text is lowercased."""
    max_words: Positive | None = None
    """Training pairs with a longer side, in words, are left out; null: no bound."""
    max_length: Positive | None = 250
    """Training pairs with a longer side, in subwords, are left out; null: no bound."""
    max_ratio: Annotated[float, Field(gt=1.0)] | None = None
    """Training pairs of which one side has more than this many times the subwords of the other are left out; null: no bound."""
    truncate: Truncate | None = None
    """Cuts longer sentences of every split, before `max_length` and `max_ratio` apply; null: none is cut."""
    vocab: VocabSizes = VocabSizes()
    """Declared vocabulary sizes, for parameter counts without data."""
