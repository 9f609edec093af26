"""Useful floating-point operations of the baseline, equal for all contenders and without padding (see `models.flops`)."""

from __future__ import annotations

from collections.abc import Iterable

from sizes import Pair, Size

from models.flops import BACKWARD, Tokens, transformer

__all__ = ["BACKWARD", "forward", "training_per_target_token"]


def forward(size: Size, source: int, target: int) -> float:
    """Returns the FLOP of one pair with `source` and `target` tokens, EOS included."""
    return transformer(size.d_model, size.d_ff, size.layers, size.layers, size.vocab).forward(Tokens.of([(source, target)]))


def training_per_target_token(size: Size, pairs: Iterable[Pair]) -> float:
    """Returns the training FLOP per target token of this text, including the source side."""
    tokens = Tokens.of((len(src) + 1, len(tgt) + 1) for src, tgt in pairs)
    return transformer(size.d_model, size.d_ff, size.layers, size.layers, size.vocab).training(tokens) / tokens.tgt
