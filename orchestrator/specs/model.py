# ruff: noqa: RUF012 (pydantic copies defaults; ruff recognises only direct subclasses of BaseModel)
"""Schema of the section `model`. Fields, order, defaults and descriptions come from `models.config`; fields are repeated here only to add
bounds or a stricter type."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from models.config import Component, DropoutConfig, ModelConfig, StackConfig
from orchestrator.specs.base import Positive, Probability, Strict

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
    """Depth and components of the decoder; an encoder has the same keys but for cross_attention."""

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
