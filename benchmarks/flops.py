"""Useful floating-point operations of the baseline, counted from its equations: the same for every contender, padding excluded.

A product of n x k and k x m counts 2nkm. Of causal attention only what is visible counts. Norms, softmax and dropout do not count.
"""

from __future__ import annotations

from collections.abc import Iterable

from sizes import Pair, Size

BACKWARD = 2
"""Each product of the forward pass has two in the backward pass."""


def forward(size: Size, source: int, target: int) -> int:
    """FLOP of one pair, `source` and `target` tokens, EOS included."""
    d, ffn = size.d_model, 4 * size.d_model * size.d_ff
    encoder = source * (8 * d * d + ffn) + 4 * d * source * source
    own = target * 8 * d * d + 2 * d * target * (target + 1)
    cross = 4 * d * d * (target + source) + 4 * d * source * target
    decoder = own + cross + target * ffn
    return size.layers * (encoder + decoder) + target * 2 * d * size.vocab


def training_per_target_token(size: Size, pairs: Iterable[Pair]) -> float:
    """FLOP of a training step for each target token of this text, the source side included."""
    flop, tokens = 0, 0
    for src, tgt in pairs:
        flop += forward(size, len(src) + 1, len(tgt) + 1)
        tokens += len(tgt) + 1
    return (1 + BACKWARD) * flop / tokens
