"""The configuration of a model as plain frozen data. `orchestrator/specs/schema.py` adds strict validation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

Component = dict[str, Any]
"""`{kind: NAME, **options}`; the options are the keyword-only arguments of the registered class."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of a number, in the `Annotated` type of a field or an option. Only pydantic reads them."""

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source) | {name: bound for name, bound in vars(self).items() if bound is not None}


Positive = Annotated[float, Bounds(gt=0)]
Probability = Annotated[float, Bounds(ge=0, lt=1)]
AtLeast1 = Annotated[int, Bounds(ge=1)]
UpTo1000 = Annotated[int, Bounds(ge=1, le=1000)]
MAX_WIDTH = 100_000
Width = Annotated[int, Bounds(ge=1, le=MAX_WIDTH)]


@dataclass(frozen=True)
class DropoutConfig:
    """Dropout probabilities."""

    embedding: Probability = 0.1
    """Dropout probability of the embedded words, positions included."""
    residual: Probability = 0.1
    """Dropout probability of a sub-layer's output before it joins the residual stream, and of a convolutional layer's input."""
    attention: Probability = 0.0
    """Dropout probability of the attention weights."""
    ffn: Probability = 0.0
    """Dropout probability of the feed-forward network's inner states."""


@dataclass(frozen=True)
class StackConfig:
    """Depth and components of one side. An encoder has no cross-attention."""

    num_layers: UpTo1000 = 6
    """Number of layers of this side."""
    layer: Component = field(default_factory=lambda: {"kind": "transformer"})
    """What a layer is."""
    connection: Component = field(default_factory=lambda: {"kind": "residual"})
    """What each layer reads of the layers below it."""
    aggregation: Component = field(default_factory=lambda: {"kind": "top"})
    """What the stack returns: its last state, or a combination of its layers."""
    residual: Component = field(default_factory=lambda: {"kind": "plain"})
    """How a sub-layer reads the residual stream and how its output joins it."""
    self_attention: Component = field(default_factory=lambda: {"kind": "single"})
    """The self-attention sub-layer."""
    cross_attention: Component | None = None
    """The sub-layer by which the decoder attends to the source."""


@dataclass(frozen=True)
class ModelConfig:
    """The network. Encoder and decoder have the same widths; they differ only in depth and components."""

    d_model: Width = 512
    """Width of the states, D."""
    d_ff: Width = 2048
    """Inner width of the feed-forward networks."""
    num_heads: AtLeast1 = 8
    """Attention heads; a divisor of d_model."""
    norm: Literal["pre", "post"] = "post"
    """Where layer norms stand: post: after each residual sum (Vaswani et al. 2017); pre: before each sub-layer, and after the stack."""
    norm_eps: Positive = 1e-6
    """Epsilon that a layer norm adds to the variance."""
    activation: Literal["relu", "gelu"] = "relu"
    """Activation of the feed-forward networks."""
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    """Positions that are added to the embedded words: sinusoids, a learned table, or none."""
    max_positions: Width = 1024
    """Number of learned positions, in subwords with EOS."""
    word_dim: Width | None = None
    """Width of embedded words; a linear map to d_model follows. null: d_model, without a map."""
    output_dim: Width | None = None
    """Input width of the output layer; a linear map to this width precedes it. null: word_dim, or d_model."""
    weight_norm: bool = False
    """Whether the linear maps of convolutional components and of the output have weight normalisation."""
    embeddings: Literal["separate", "tied-output", "three-way"] = "separate"
    """Which tables are shared. separate: none; tied-output: target words and output; three-way: also source words (joint vocabulary)."""
    embedding_scale: bool = True
    """Whether embedded words are multiplied by sqrt(d_model)."""
    encoder_embedding_bias: bool = False
    """Whether a learned vector is added to the embedded source words, as in THUMT."""
    output_bias: bool = False
    """Whether the output layer has a bias."""
    init: Literal["xavier", "fan-in", "convs2s"] = "xavier"
    """Initial weights. xavier: uniform by fan-in and fan-out, biases 0; fan-in: U(+-1/sqrt(fan_in)), also for biases; convs2s: normal, by
    fan-in and dropout (Gehring et al. 2017, section 3.5)."""
    zero_residual: bool = False
    """Whether Transformer layers start as the identity: the last map of each sub-layer is 0, but with `init: fan-in` its bias is not.
    The residuals `rezero`, `deepnorm`, `admin` and `delta` keep their own initial values. `multi_layer` self-attention adds a constant."""
    dropout: DropoutConfig = DropoutConfig()
    """Dropout probabilities."""
    encoder: StackConfig = field(default_factory=StackConfig)
    """Depth and components of the encoder."""
    decoder: StackConfig = field(default_factory=lambda: StackConfig(cross_attention={"kind": "single"}))
    """Depth and components of the decoder."""
    bridge: Component = field(default_factory=lambda: {"kind": "top"})
    """What each decoder layer attends to."""
    extra_encoder: Component | None = None
    """A second encoder beside the stack, which a bridge reads; null: none."""
    context: Component | None = None
    """States over the depth of the encoder, which contextual attention reads; null: none."""
    head: Component | None = None
    """How the decoder's states become predictions; null: log p = log softmax(W h + b), where h is the decoder's output."""
    regularizers: Sequence[Component] = ()
    """Terms that are added to the loss."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "ModelConfig":
        """Returns the config from nested plain data. TypeError: unknown key."""
        known = dict(data)
        if "dropout" in known:
            known["dropout"] = DropoutConfig(**known["dropout"])
        if "encoder" in known:
            known["encoder"] = StackConfig(**known["encoder"])
        if "decoder" in known:
            known["decoder"] = StackConfig(**{"cross_attention": {"kind": "single"}, **known["decoder"]})
        known["regularizers"] = tuple(known.get("regularizers", ()))
        unknown = set(known) - {f.name for f in fields(cls)}
        if unknown:
            raise TypeError(f"unknown model keys: {', '.join(sorted(unknown))}")
        return cls(**known)


def options(component: Mapping[str, Any]) -> dict[str, Any]:
    """The component's options without its kind."""
    return {name: value for name, value in component.items() if name != "kind"}
