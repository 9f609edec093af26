"""Useful floating-point operations of a forward pass, counted from the equations; padding, norms, softmax and dropout do not count.

A product of n x k and k x m counts 2nkm: every weight that meets a position counts 2. Of causal attention only what is visible counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Tokens(NamedTuple):
    """Sums over pairs of S source and T target tokens, EOS included: what a count depends on. src2: of S^2; tgt2: of T^2; both: of ST."""

    src: float
    tgt: float
    src2: float
    tgt2: float
    both: float

    @classmethod
    def of(cls, src: Any, tgt: Any) -> Tokens:
        """src, tgt: lengths [N] with EOS."""
        s, t = (np.asarray(side, dtype=np.float64) for side in (src, tgt))
        return cls(*(float(values.sum()) for values in (s, t, s * s, t * t, s * t)))

    def scaled(self, factor: float) -> Tokens:
        """Of `factor` times as many pairs, as long on average."""
        return Tokens(*(value * factor for value in self))


@dataclass(frozen=True)
class Work:
    """What a model does with them.

    src, tgt: weights that meet every source or target position (the decoder's keys and values of the memory meet the source's; output
    layer included). own_src, own_tgt, cross: widths of attention, summed over layers: of the encoder to itself, of the decoder to what it
    has written, of the decoder to the memory.
    """

    src: float
    tgt: float
    own_src: float
    own_tgt: float
    cross: float

    def forward(self, tokens: Tokens) -> float:
        """FLOP of a forward pass over the pairs."""
        weights = 2 * (self.src * tokens.src + self.tgt * tokens.tgt)
        attention = 4 * self.own_src * tokens.src2 + 2 * self.own_tgt * (tokens.tgt2 + tokens.tgt) + 4 * self.cross * tokens.both
        return weights + attention

    def training(self, tokens: Tokens) -> float:
        """FLOP of the forward and the backward pass, where each product of the forward pass has two."""
        return 3 * self.forward(tokens)
