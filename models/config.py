"""The configuration of a model as plain frozen data. `orchestrator/specs/schema.py` validates it; this is what the modules read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class DropoutConfig:
    embedding: float = 0.1
    residual: float = 0.1
    attention: float = 0.0
    ffn: float = 0.0


@dataclass(frozen=True)
class StackConfig:
    """One side. Each component is `{kind: NAME, **options}`."""

    num_layers: int = 6
    layer: Mapping[str, Any] = field(default_factory=lambda: {"kind": "transformer"})
    connection: Mapping[str, Any] = field(default_factory=lambda: {"kind": "residual"})
    aggregation: Mapping[str, Any] = field(default_factory=lambda: {"kind": "top"})
    self_attention: Mapping[str, Any] = field(default_factory=lambda: {"kind": "single"})
    cross_attention: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ModelConfig:
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    norm: str = "post"
    norm_eps: float = 1e-6
    activation: str = "relu"
    positions: str = "sinusoidal"
    max_positions: int = 1024
    word_dim: int | None = None
    output_dim: int | None = None
    weight_norm: bool = False
    embeddings: str = "separate"
    embedding_scale: bool = True
    encoder_embedding_bias: bool = False
    output_bias: bool = False
    init: str = "xavier"
    dropout: DropoutConfig = DropoutConfig()
    encoder: StackConfig = field(default_factory=StackConfig)
    decoder: StackConfig = field(default_factory=lambda: StackConfig(cross_attention={"kind": "single"}))
    bridge: Mapping[str, Any] = field(default_factory=lambda: {"kind": "top"})
    extra_encoder: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    regularizers: tuple[Mapping[str, Any], ...] = ()

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
