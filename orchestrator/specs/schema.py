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
    """Text on which merges are learned. joint: both sides together; each side then has its own vocabulary of the pieces that it uses (as in
    subword-nmt and fairseq). own: the text of each vocabulary."""
    model: Annotated[list[str], Field(min_length=1, max_length=2)] | None = None
    """Files of existing models instead of learning: one file, or source and target. A file is a sentencepiece model, a tokenizer.json of
    Hugging Face or codes of subword-nmt. Paths are absolute or below the data folder. Their content counts, not `size` and `merges`."""
    dictionary: Annotated[list[str], Field(min_length=1, max_length=2)] | None = None
    """Files of existing vocabularies: one file, or source and target. A file is a fairseq dictionary with one piece and its count per line.
    Without `model` they need kind word. null: the vocabulary of the model or, for codes, of the training text."""

    @property
    def existing(self) -> bool:
        """Returns whether a model or a vocabulary is given."""
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
    """Maximum number of subwords per side, in every split. References are not cut. Sentence ends count; the final EOS does not."""

    src: Positive | None = None
    """Number of source subwords that are kept; null: all."""
    tgt: Positive | None = None
    """Number of target subwords that are kept; null: all."""


class DataSpec(Strict):
    """A corpus and its preprocessing."""

    corpus: str
    """Name of a corpus in `search_spaces/data/`; `nmt-ablate data add` adds your own files."""
    subword: Subword = Subword()
    """Subword segmentation."""
    tokenizer: Literal["none", "moses"] = "none"
    """Tokenisation before the subword segmentation; none: the text is used unchanged."""
    lowercase: bool = False
    """Whether all text is lowercased."""
    max_words: Positive | None = None
    """Maximum length of each side in words; longer training pairs are left out. null: no bound."""
    max_length: Positive | None = 250
    """Maximum length of each side in subwords; longer training pairs are left out. null: no bound."""
    max_ratio: Annotated[float, Field(gt=1.0)] | None = None
    """Maximum ratio of the sides' lengths in subwords; training pairs with a larger ratio are left out. null: no bound."""
    truncate: Truncate | None = None
    """Lengths to which sentences of every split are cut, before `max_length` and `max_ratio` apply; null: no cut."""
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
    """Depth and components of the decoder. An encoder has the same keys except cross_attention."""

    cross_attention: Component = {"kind": "single"}  # type: ignore[misc, assignment]


class ModelSpec(Strict, ModelConfig):
    """The network. Encoder and decoder have the same widths; they differ only in depth and components."""

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
    """Updates between two validations; epoch: at the end of each epoch."""
    checkpoint_every: Every = 1000
    """Updates between two checkpoints, from which an interrupted training resumes; epoch: at the end of each epoch."""
    snapshots: Natural = 0
    """Number of latest weight-only snapshots that are kept for averaging (`decode.checkpoint: average`)."""
    snapshot_every: Every | None = None
    """Updates between two snapshots; epoch: at the end of each epoch; null: as checkpoint_every."""
    patience: Positive | None = None
    """Number of consecutive validations without an improvement of the validation nll after which training ends; null: no limit."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the network's computations; weights and the optimiser stay in fp32."""
    threads: Count = 1
    """Number of CPU threads of each worker."""
    compile: bool = False
    """Whether torch.compile compiles the layers and, on a GPU, the loss. Other code is not compiled."""
    log_gradient_norms: Natural = 0
    """Updates between two logs of each encoder layer's gradient norm; 0: off. Not part of a run's key."""
    recompute: Literal["none", "layers"] = "none"
    """layers: the backward pass computes the activations of layers again, which saves memory. Results are bitwise equal to none."""

    @model_validator(mode="after")
    def _sound(self) -> "TrainSpec":
        if self.compile and self.recompute != "none":
            raise ValueError(f"recompute is {self.recompute}; expected none with compile, which decides itself what is kept")
        if self.max_steps is None and self.max_epochs is None:
            raise ValueError("one of max_steps and max_epochs is needed")
        return self


class LengthPenalty(Strict):
    """Divisor of a hypothesis's log-probability when hypotheses are compared."""

    kind: Literal["gnmt", "exponent", "none"] = "gnmt"
    """gnmt: ((5+|Y|)/6)^alpha; exponent: |Y|^alpha; none: 1."""
    alpha: Exponent | Literal["tuned"] = 0.6
    """The exponent. tuned: the value in `candidates` with the best score on the validation set by the row's metric; the first on ties."""
    candidates: Annotated[list[Exponent], Field(min_length=1)] | None = None
    """Values of alpha to try, with alpha tuned."""

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
    """Weights used for decoding. last: the last ones; best: the ones with the lowest validation nll; average: the mean of the snapshots;
    ema: the moving average of the weights (`optim.ema`)."""
    beam_size: Count = 4
    """Number of hypotheses per sentence; 1: greedy search."""
    length_penalty: LengthPenalty = LengthPenalty()
    """How hypotheses of different lengths are compared."""
    max_ratio: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Maximum output length in subwords with EOS, as a multiple of the source length; max_extra is added."""
    max_extra: Annotated[int, Field(ge=0, le=100_000)] = 50
    """Number of subwords that is added to max_ratio times the source length."""
    max_length: Positive | None = None
    """Maximum number of subwords of an output with EOS; null: only max_ratio and max_extra bound it."""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=16)] = 0
    """n > 0: an output repeats no n-gram of subwords (3: trigram blocking, Paulus et al. 2018); 0: off."""
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    """Precision of the linear layers."""


class ScoreSpec(Strict):
    """Test set and metric."""

    test: str = "test"
    """Split of the corpus that is translated and scored, or a test set of sacreBLEU in its languages, such as `wmt14/full`."""
    metric: Literal["sacrebleu", "multi-bleu", "mteval", "rouge"] = "sacrebleu"
    """sacrebleu and mteval (mteval-v13a) score detokenised text. multi-bleu scores tokenised text without smoothing, as papers do. rouge is
    the F1 of ROUGE-1, -2 and -L: of stemmed words for English, and of the words of `tokenize` for other target languages."""
    tokenize: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] | None = None
    """sacreBLEU's name of the tokeniser, for sacrebleu and mteval. null: zh for zh, ja-mecab for ja, ko-mecab for ko, else 13a."""
    lowercase: bool = False
    """Whether case is ignored."""
    split_compounds: bool = False
    """Whether multi-bleu splits words at hyphens, as tensor2tensor's get_ende_bleu.sh does."""
    beam_size: Count | None = None
    """Beam size that replaces `decode.beam_size`, for example for greedy search beside beam search in `also`; null: `decode.beam_size`."""


class RunSpec(Strict):
    """One training with its decoding and scoring: everything that determines the number in a table's cell."""

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
    """Random seed of the initial values, the order of the data and dropout."""
    init_from: str | None = None
    """Address of the row whose trained weights initialise this one."""

    def sections(self) -> dict[str, Any]:
        """Returns all sections as plain data, without seed and init_from."""
        return self.model_dump(exclude={"seed", "init_from"})

    @property
    def start(self) -> str | None:
        """Returns which weights of the row `init_from` the training starts from (`last`, `best`, ..); None: random weights."""
        return None if self.init_from is None else self.decode.checkpoint

    @property
    def search(self) -> DecodeSpec:
        """Returns `decode`, with the beam size of `score` if that is set."""
        beam = self.score.beam_size
        return self.decode if beam is None else self.decode.model_copy(update={"beam_size": beam})
