"""Widths of the states in a stack whose layers may differ."""

from __future__ import annotations

from models.config import ModelConfig, StackConfig


def per_layer(value: int | list[int], num_layers: int) -> list[int]:
    """One number for each layer, from one number or a list of so many."""
    return [value] * num_layers if isinstance(value, int) else list(value)


def output_widths(stack: StackConfig, d_model: int) -> list[int]:
    """Widths of h_1 .. h_L: `widths` of the layer where it has such an option, else d_model."""
    return per_layer(stack.layer.get("widths", d_model), stack.num_layers)


def group_size(sumlen: int, num_layers: int) -> int:
    """How many layers stand between two summary layers; all of them where there is none (sumlen 0)."""
    return sumlen - 1 if sumlen else num_layers


def base(layer: int, group: int) -> int:
    """How many layers lie below the group that `layer` belongs to."""
    return (layer - 1) // group * group


def last_base(stack: StackConfig) -> int:
    """Behind how many layers the last group of layers begins (0: there is one group)."""
    return base(stack.num_layers, group_size(stack.connection.get("sumlen", 0), stack.num_layers))


def output_dim(config: ModelConfig) -> int:
    """Width in front of the softmax."""
    return config.output_dim or config.word_dim or config.d_model


def list_fault(name: str, value: int | list[int], num_layers: int) -> str | None:
    """What is wrong with an option that is one number or one for each layer, in one line."""
    if not isinstance(value, int) and len(value) != num_layers:
        return f"{name} has {len(value)} numbers; expected one number or {num_layers}, one for each layer"
    wrong = [number for number in per_layer(value, num_layers) if not 1 <= number <= MAX_WIDTH]
    return f"{name} has {wrong[0]}; expected 1 to {MAX_WIDTH}" if wrong else None


MAX_WIDTH = 100_000
