"""The configuration of a model as plain frozen data. `orchestrator/specs/schema.py` adds bounds and strict validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Component = dict[str, Any]
"""`{kind: NAME, **options}`; the options are the keyword-only arguments of the registered class."""


@dataclass(frozen=True)
class DropoutConfig:
    embedding: float = 0.1
    residual: float = 0.1
    attention: float = 0.0
    ffn: float = 0.0


@dataclass(frozen=True)
class StackConfig:
    """One side. An encoder has no cross-attention."""

    num_layers: int = 6
    layer: Component = field(default_factory=lambda: {"kind": "transformer"})
    connection: Component = field(default_factory=lambda: {"kind": "residual"})
    aggregation: Component = field(default_factory=lambda: {"kind": "top"})
    residual: Component = field(default_factory=lambda: {"kind": "plain"})
    self_attention: Component = field(default_factory=lambda: {"kind": "single"})
    cross_attention: Component | None = None


@dataclass(frozen=True)
class ModelConfig:
    """The network. Widths are of the whole model; sides differ only by depth and components."""

    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    norm: Literal["pre", "post"] = "post"
    norm_eps: float = 1e-6
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    max_positions: int = 1024  # rows of the table of learned positions
    word_dim: int | None = None  # width of embedded words; None: d_model, else a linear map follows the table
    output_dim: int | None = None  # width in front of the softmax; None: word_dim, or d_model
    weight_norm: bool = False  # of the linear maps of convolutional components and of the output
    embeddings: Literal["separate", "tied-output", "three-way"] = "separate"
    embedding_scale: bool = True
    encoder_embedding_bias: bool = False
    output_bias: bool = False
    init: Literal["xavier", "fan-in", "convs2s"] = "xavier"
    zero_residual: bool = False  # Transformer layers start as the identity: the last map of each sublayer is 0
    dropout: DropoutConfig = DropoutConfig()
    encoder: StackConfig = field(default_factory=StackConfig)
    decoder: StackConfig = field(default_factory=lambda: StackConfig(cross_attention={"kind": "single"}))
    bridge: Component = field(default_factory=lambda: {"kind": "top"})
    extra_encoder: Component | None = None
    context: Component | None = None
    head: Component | None = None  # None: log p = log softmax(W h + b), h the decoder's output
    regularizers: Sequence[Component] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> ModelConfig:
        """From nested plain data (TypeError on an unknown key)."""
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
