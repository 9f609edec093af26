"""Schema of the sections `decode` and `score`: the search for translations, and what is counted of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from orchestrator.specs.base import Count, Natural, Positive, Strict


class LengthPenalty(Strict):
    """Divisor of the sum of log-probabilities by which hypotheses are compared."""

    kind: Literal["gnmt", "exponent", "none"] = "gnmt"
    """gnmt: ((5+|Y|)/6)^alpha; exponent: |Y|^alpha; none: 1."""
    alpha: Annotated[float, Field(ge=0)] | Literal["tuned"] = 0.6
    """The exponent. tuned: the one of `candidates` with the best score on the validation set by the row's metric; the first one on ties."""
    candidates: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)] | None = None
    """Values of alpha that are tried; with alpha tuned alone."""

    @model_validator(mode="after")
    def _tuned(self) -> LengthPenalty:
        tuned = self.alpha == "tuned"
        if tuned and self.kind == "none":
            raise ValueError("alpha is tuned; expected kind gnmt or exponent")
        if tuned and self.candidates is None:
            raise ValueError("candidates are needed by alpha tuned")
        if self.candidates is not None and not tuned:
            raise ValueError(f"candidates are used by alpha tuned alone, not by {self.alpha}")
        return self


class DecodeSpec(Strict):
    """Checkpoint and search. Output length: |Y| <= max_ratio * |X| + max_extra, and |Y| <= max_length, counting EOS."""

    checkpoint: Literal["last", "best", "average", "ema"] = "last"
    """Weights that translate: the last ones; those with the lowest validation nll (best); the mean of the snapshots (average); the moving
    average of the weights (ema, with `optim.ema`)."""
    beam_size: Count = 4
    """Hypotheses kept a sentence; 1: greedy search."""
    length_penalty: LengthPenalty = LengthPenalty()
    """How hypotheses of different lengths are compared."""
    max_ratio: Annotated[float, Field(gt=0)] = 1.0
    """An output has at most max_ratio times its source's subwords, plus max_extra, counting EOS."""
    max_extra: Natural = 50
    """Subwords that an output may have beyond max_ratio times its source's."""
    max_length: Positive | None = None
    """Most subwords of an output, counting EOS; null: max_ratio and max_extra alone bound it."""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=16)] = 0
    """n > 0 forbids repeated n-grams of subwords in an output (3: trigram blocking, Paulus et al. 2018); 0: nothing is forbidden."""
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """Numbers with which the linear layers compute."""


class ScoreSpec(Strict):
    """Test set and metric."""

    test: str = "test"
    """Split of the corpus that is translated and scored."""
    metric: Literal["sacrebleu", "multi-bleu", "mteval", "rouge"] = "sacrebleu"
    """sacrebleu and mteval (mteval-v13a) score detokenised text; multi-bleu scores tokenised text without smoothing, as papers do; rouge is
    the F1 of ROUGE-1, -2 and -L, of stemmed words for English and of the words of `tokenize` for other target languages."""
    tokenize: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] | None = None
    """sacreBLEU's name of the tokeniser, for sacrebleu and mteval; null: zh for zh, ja-mecab for ja, ko-mecab for ko, 13a for all other
    target languages."""
    lowercase: bool = False
    """Whether case is ignored."""
    split_compounds: bool = False
    """Whether multi-bleu splits words at hyphens, as tensor2tensor's get_ende_bleu.sh does."""
    beam_size: Count | None = None
    """Beam size in place of that of `decode`, for example for greedy search beside beam search in `also`; null: that of `decode`."""
