# ruff: noqa: RUF012 (pydantic copies defaults; ruff recognises only direct subclasses of BaseModel)
"""Strict schema of a run: one resolved row.

Every field is part of a run's identity unless stated otherwise; `ledger.keys` hashes these fields. Unknown keys, wrong types and
out-of-range numbers are errors (pydantic strict mode: "3" is not an int, 3 is a valid float).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from models.config import Component, DropoutConfig, ModelConfig, StackConfig
from orchestrator.specs.base import Natural, Positive, Probability, Strict
from orchestrator.specs.corpus_files import Corpus
from orchestrator.specs.optim import BatchSpec, OptimSpec, Restart, Schedule

__all__ = [
    "BatchSpec",
    "Component",
    "DataSpec",
    "DecodeSpec",
    "DecoderSpec",
    "DropoutSpec",
    "EncoderSpec",
    "Every",
    "LengthPenalty",
    "ModelSpec",
    "Natural",
    "OptimSpec",
    "Positive",
    "Probability",
    "Restart",
    "RunSpec",
    "Schedule",
    "ScoreSpec",
    "Strict",
    "Subword",
    "TrainSpec",
    "Truncate",
    "VocabSizes",
]


# ---------------------------------------------------------------- data


class Subword(Strict):
    """Subword segmentation learned on the training text.

    size: number of pieces, including specials. joint: one vocabulary for both sides. merges joint: merges are learned on the text of both
    sides, but each side has its own vocabulary of the pieces that it uses (as in subword-nmt and fairseq).
    """

    kind: Literal["bpe", "unigram", "word"] = "bpe"
    size: Positive = 8000
    joint: bool = True
    merges: Literal["own", "joint"] = "own"

    @model_validator(mode="after")
    def _merges(self) -> Subword:
        if self.merges == "joint" and (self.joint or self.kind == "word"):
            raise ValueError(f"merges is joint; expected own with {'joint true' if self.joint else 'kind word'}")
        return self


class VocabSizes(Strict):
    """Declared vocabulary sizes, for parameter counts without data. Prepared data takes precedence."""

    src: Positive | None = None
    tgt: Positive | None = None


class Truncate(Strict):
    """Maximum subwords of each side, in every split; references stay whole. Sentence ends count, the final EOS does not."""

    src: Positive | None = None
    tgt: Positive | None = None


class DataSpec(Strict):
    """A corpus of `search_spaces/data/` and its preprocessing. `truncate` is applied before `max_length` and `max_ratio`."""

    corpus: Corpus
    subword: Subword = Subword()
    tokenizer: Literal["none", "moses"] = "none"
    lowercase: bool = False
    max_words: Positive | None = None
    max_length: Positive | None = 250
    max_ratio: Annotated[float, Field(gt=1.0)] | None = None
    truncate: Truncate | None = None
    vocab: VocabSizes = VocabSizes()


# ---------------------------------------------------------------- model


# Fields, order and defaults come from `models.config`; fields are repeated here only to add bounds or a stricter type.
_DROPOUT, _STACK, _MODEL = DropoutConfig(), StackConfig(), ModelConfig()


class DropoutSpec(Strict, DropoutConfig):
    """Dropout probabilities."""

    embedding: Probability = _DROPOUT.embedding
    residual: Probability = _DROPOUT.residual
    attention: Probability = _DROPOUT.attention
    ffn: Probability = _DROPOUT.ffn


class EncoderSpec(Strict, StackConfig):
    """Depth and components of the encoder."""

    num_layers: Positive = _STACK.num_layers
    layer: Component = _STACK.layer
    connection: Component = _STACK.connection
    aggregation: Component = _STACK.aggregation
    residual: Component = _STACK.residual
    self_attention: Component = _STACK.self_attention
    cross_attention: ClassVar[None] = None  # type: ignore[misc]  # the key is refused


class DecoderSpec(EncoderSpec):
    """Depth and components of the decoder."""

    num_layers: Positive = _STACK.num_layers
    cross_attention: Component = {"kind": "single"}  # type: ignore[misc, assignment]


class ModelSpec(Strict, ModelConfig):
    """The network. Encoder and decoder share all widths; they differ only in depth and components."""

    d_model: Positive = _MODEL.d_model
    d_ff: Positive = _MODEL.d_ff
    num_heads: Positive = _MODEL.num_heads
    norm_eps: Annotated[float, Field(gt=0)] = _MODEL.norm_eps
    max_positions: Positive = _MODEL.max_positions
    word_dim: Positive | None = _MODEL.word_dim
    output_dim: Positive | None = _MODEL.output_dim
    dropout: DropoutSpec = DropoutSpec()
    encoder: EncoderSpec = EncoderSpec()
    decoder: DecoderSpec = DecoderSpec()
    bridge: Component = _MODEL.bridge
    regularizers: list[Component] = []

    @model_validator(mode="after")
    def _heads(self) -> ModelSpec:
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}")
        return self


# ---------------------------------------------------------------- length


Every = Positive | Literal["epoch"]
"""An interval: a number of updates, or the end of each epoch."""


class TrainSpec(Strict):
    """Length and bookkeeping of a training.

    Training ends at the first of max_steps, max_epochs, exhausted patience and a plateau's min_lr (`training.phases.ended_by`).
    """

    max_steps: Positive | None = None
    max_epochs: Positive | None = None
    validate_every: Every = 1000
    checkpoint_every: Every = 1000
    snapshots: Natural = 0  # number of latest weight-only snapshots to retain for averaging
    snapshot_every: Every | None = None  # default: checkpoint_every
    patience: Positive | None = None  # validations without improvement of the validation nll
    precision: Literal["fp32", "bf16"] = "fp32"
    threads: Positive = 1
    compile: bool = False
    log_gradient_norms: Natural = 0  # interval in updates of logging each encoder layer's gradient norm; 0: off. Not in the key
    recompute: Literal["none", "layers"] = "none"  # layers: recompute activations in the backward pass; bitwise equal

    @model_validator(mode="after")
    def _recompute(self) -> TrainSpec:
        if self.compile and self.recompute != "none":
            raise ValueError(f"recompute is {self.recompute}; expected none with compile, which decides itself what is kept")
        return self

    @model_validator(mode="after")
    def _end(self) -> TrainSpec:
        if self.max_steps is None and self.max_epochs is None:
            raise ValueError("one of max_steps and max_epochs is needed")
        return self


# ---------------------------------------------------------------- decoding and scoring


class LengthPenalty(Strict):
    """Divisor of the sum of log-probabilities: ((5+|Y|)/6)^alpha for gnmt, |Y|^alpha for exponent.

    alpha tuned: the one of `candidates` with the best score on the validation set by the row's metric; the first one on ties.
    """

    kind: Literal["gnmt", "exponent", "none"] = "gnmt"
    alpha: Annotated[float, Field(ge=0)] | Literal["tuned"] = 0.6
    candidates: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)] | None = None

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
    """Checkpoint and search.

    checkpoint: best has the lowest validation nll, average is the mean of the snapshots, ema is the moving average of the weights.
    Output length: |Y| <= max_ratio * |X| + max_extra, and |Y| <= max_length, counting EOS.
    no_repeat_ngram: n > 0 forbids repeated n-grams of subwords in an output (3: trigram blocking, Paulus et al. 2018).
    """

    checkpoint: Literal["last", "best", "average", "ema"] = "last"
    beam_size: Positive = 4
    length_penalty: LengthPenalty = LengthPenalty()
    max_ratio: Annotated[float, Field(gt=0)] = 1.0
    max_extra: Natural = 50
    max_length: Positive | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=16)] = 0
    precision: Literal["fp32", "bf16", "int8"] = "fp32"  # of the linear layers


class ScoreSpec(Strict):
    """Test set and metric.

    metric: sacrebleu and mteval (mteval-v13a) score detokenised text; multi-bleu scores tokenised text without smoothing, as papers do;
    rouge is the F1 of ROUGE-1, -2 and -L.
    tokenize: sacreBLEU's name of the tokeniser, for sacrebleu and mteval; null: zh for zh, ja-mecab for ja, ko-mecab for ko, 13a for all
    other target languages (`bleu_tokenizer`).
    beam_size: overrides that of `decode`, for example for greedy search beside beam search in `also`.
    """

    test: str = "test"
    metric: Literal["sacrebleu", "multi-bleu", "mteval", "rouge"] = "sacrebleu"
    tokenize: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] | None = None
    lowercase: bool = False
    split_compounds: bool = False
    beam_size: Positive | None = None


class RunSpec(Strict):
    """One training, decoding and scoring: everything that determines the number in a table's cell."""

    data: DataSpec
    batch: BatchSpec = BatchSpec()
    model: ModelSpec = ModelSpec()
    optim: OptimSpec = OptimSpec()
    train: TrainSpec
    decode: DecodeSpec = DecodeSpec()
    score: ScoreSpec = ScoreSpec()
    seed: Natural = 1
    init_from: str | None = None  # address of the row whose trained weights initialise this one

    @property
    def search(self) -> DecodeSpec:
        """`decode`, with the beam size of `score` if it gives one."""
        beam = self.score.beam_size
        return self.decode if beam is None else self.decode.model_copy(update={"beam_size": beam})
