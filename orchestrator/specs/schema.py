# ruff: noqa: RUF012 (pydantic copies defaults; ruff recognises only direct subclasses of BaseModel)
"""Strict schema of a run: one resolved row.

Every field is part of a run's identity unless stated otherwise; `ledger.keys` hashes these fields. Unknown keys, wrong types and
out-of-range numbers are errors (pydantic strict mode: "3" is not an int, 3 is a valid float). The text below a field is its description
in `nmt-ablate schema` and docs/spec.md (`specs.json_schema`). The section `model` has the fields, order, bounds, defaults and descriptions
of `models.config`, which are repeated here only where the type is stricter.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from models.config import Component, DropoutConfig, ModelConfig, StackConfig
from orchestrator.specs.base import Count, Exponent, Natural, Positive, Strict, VocabSize
from orchestrator.specs.optim import BatchSpec, OptimSpec, Schedule  # noqa: F401 (Schedule for those that import it from here)


class Subword(Strict):
    """Subword segmentation learned on the training text."""

    kind: Literal["bpe", "unigram", "word"] = "bpe"
    """How text is segmented: byte-pair encoding, a unigram language model, or whole words."""
    size: VocabSize = 8000
    """Number of pieces of a vocabulary, including its 4 specials."""
    joint: bool = True
    """Whether one vocabulary serves both sides."""
    merges: Literal["own", "joint"] = "own"
    """joint: merges are learned on the text of both sides, but each side has its own vocabulary of the pieces that it uses (as in
    subword-nmt and fairseq); own: otherwise."""
    model: Annotated[list[str], Field(min_length=1, max_length=2)] | None = None
    """Files of existing models, one or source and target, in place of learning: a sentencepiece model, a tokenizer.json of
    Hugging Face, or codes of subword-nmt.
    Paths are absolute or below the data folder; their content counts, `size` and `merges` do not. null: learn."""
    dictionary: Annotated[list[str], Field(min_length=1, max_length=2)] | None = None
    """Files of existing vocabularies, one or source and target: dictionaries of fairseq, one piece and its count a line. Without
    `model` they need kind word. null: the vocabulary of the model or, for codes, of the training text."""

    @property
    def existing(self) -> bool:
        """Whether a model or a vocabulary is given."""
        return self.model is not None or self.dictionary is not None

    @model_validator(mode="after")
    def _merges(self) -> "Subword":
        if self.merges == "joint" and (self.joint or self.kind == "word"):
            raise ValueError(f"merges is joint; expected own with {'joint true' if self.joint else 'kind word'}")
        if self.joint and 2 in (len(self.model or []), len(self.dictionary or [])):
            raise ValueError("model or dictionary has two files; expected joint false, for a vocabulary of each side")
        if (self.model is None and self.dictionary is not None) != (self.kind == "word" and self.existing):
            raise ValueError("kind word is for words: expected no model with it, and it with a dictionary alone")
        return self


class VocabSizes(Strict):
    """Declared vocabulary sizes, for parameter counts without data. Prepared data takes precedence."""

    src: VocabSize | None = None
    """Number of source subwords, specials included; null: unknown until the data are prepared."""
    tgt: VocabSize | None = None
    """Number of target subwords, specials included; null: unknown until the data are prepared."""


class Truncate(Strict):
    """Maximum subwords of each side, in every split; references stay whole. Sentence ends count, the final EOS does not."""

    src: Positive | None = None
    """Subwords of a source that are kept; null: all."""
    tgt: Positive | None = None
    """Subwords of a target that are kept; null: all."""


class DataSpec(Strict):
    """A corpus and its preprocessing."""

    corpus: str
    """Name of a corpus of `search_spaces/data/`; `nmt-ablate data add` makes one of your own files."""
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


_STACK, _MODEL = StackConfig(), ModelConfig()


class DropoutSpec(Strict, DropoutConfig):
    """Dropout probabilities."""


class EncoderSpec(Strict, StackConfig):
    """Depth and components of the encoder."""

    layer: Component = _STACK.layer
    connection: Component = _STACK.connection
    aggregation: Component = _STACK.aggregation
    residual: Component = _STACK.residual
    self_attention: Component = _STACK.self_attention
    cross_attention: ClassVar[None] = None  # type: ignore[misc]  # the key is refused


class DecoderSpec(EncoderSpec):
    """Depth and components of the decoder; an encoder has the same keys but for cross_attention."""

    cross_attention: Component = {"kind": "single"}  # type: ignore[misc, assignment]


class ModelSpec(Strict, ModelConfig):
    """The network. Encoder and decoder share all widths; they differ only in depth and components."""

    dropout: DropoutSpec = DropoutSpec()
    encoder: EncoderSpec = EncoderSpec()
    decoder: DecoderSpec = DecoderSpec()
    bridge: Component = _MODEL.bridge
    regularizers: list[Component] = []

    @model_validator(mode="after")
    def _heads(self) -> "ModelSpec":
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}")
        return self


Every = Positive | Literal["epoch"]
"""An interval: a number of updates, or the end of each epoch."""


class TrainSpec(Strict):
    """Length and bookkeeping of a training.

    Training ends at the first of max_steps, max_epochs, exhausted patience and a plateau's min_lr.
    """

    max_steps: Positive | None = None
    """Updates after which training ends. One of max_steps and max_epochs is needed."""
    max_epochs: Positive | None = None
    """Epochs after which training ends. One of max_steps and max_epochs is needed."""
    validate_every: Every = 1000
    """Updates from one validation to the next; epoch: at the end of each."""
    checkpoint_every: Every = 1000
    """Updates from one checkpoint to the next, from which an interrupted training goes on; epoch: at the end of each."""
    snapshots: Natural = 0
    """Number of latest weight-only snapshots to retain for averaging (`decode.checkpoint: average`)."""
    snapshot_every: Every | None = None
    """Updates from one snapshot to the next; epoch: at the end of each; null: as checkpoint_every."""
    patience: Positive | None = None
    """Validations in a row without an improvement of the validation nll after which training ends; null: there may be any number."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Numbers of the network's computations; weights and the optimiser stay in fp32."""
    threads: Count = 1
    """Threads of a CPU, of each worker."""
    compile: bool = False
    """Whether torch.compile compiles the layers and, on a GPU, the loss; what stands between them runs as it is."""
    log_gradient_norms: Natural = 0
    """Updates from one logging of each encoder layer's gradient norm to the next; 0: off. It is no part of a run's key."""
    recompute: Literal["none", "layers"] = "none"
    """layers: activations of layers are computed again in the backward pass, which saves memory; bitwise equal to none."""

    @model_validator(mode="after")
    def _sound(self) -> "TrainSpec":
        if self.compile and self.recompute != "none":
            raise ValueError(f"recompute is {self.recompute}; expected none with compile, which decides itself what is kept")
        if self.max_steps is None and self.max_epochs is None:
            raise ValueError("one of max_steps and max_epochs is needed")
        return self


class LengthPenalty(Strict):
    """Divisor of the sum of log-probabilities by which hypotheses are compared."""

    kind: Literal["gnmt", "exponent", "none"] = "gnmt"
    """gnmt: ((5+|Y|)/6)^alpha; exponent: |Y|^alpha; none: 1."""
    alpha: Exponent | Literal["tuned"] = 0.6
    """The exponent. tuned: the one of `candidates` with the best score on the validation set by the row's metric; the first on ties."""
    candidates: Annotated[list[Exponent], Field(min_length=1)] | None = None
    """Values of alpha that are tried, with alpha tuned."""

    @model_validator(mode="after")
    def _tuned(self) -> "LengthPenalty":
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
    """Split of the corpus that is translated and scored, or a test set of sacreBLEU in its languages, such as `wmt14/full`."""
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


class RunSpec(Strict):
    """One training, decoding and scoring: everything that determines the number in a table's cell."""

    data: DataSpec
    """The corpus and its preprocessing."""
    batch: BatchSpec = BatchSpec()
    """Size of the batches."""
    model: ModelSpec = ModelSpec()
    """The network."""
    optim: OptimSpec = OptimSpec()
    """The optimiser and its learning-rate schedule."""
    train: TrainSpec
    """Length and bookkeeping of the training."""
    decode: DecodeSpec = DecodeSpec()
    """Checkpoint and search."""
    score: ScoreSpec = ScoreSpec()
    """Test set and metric."""
    seed: Natural = 1
    """Random seed of initial values, order of the data and dropout."""
    init_from: str | None = None
    """Address of the row whose trained weights initialise this one."""

    def sections(self) -> dict[str, Any]:
        """Plain data of all but seed and init_from."""
        return self.model_dump(exclude={"seed", "init_from"})

    @property
    def start(self) -> str | None:
        """Which weights of the row `init_from` the training starts from (`last`, `best`, ..); None for random ones."""
        return None if self.init_from is None else self.decode.checkpoint

    @property
    def search(self) -> DecodeSpec:
        """`decode`, with the beam size of `score` if it gives one."""
        beam = self.score.beam_size
        return self.decode if beam is None else self.decode.model_copy(update={"beam_size": beam})
