"""Amount of work in a training: sums of lengths, numbers of updates, and useful floating-point operations, counted from the equations.

Padding, norms, softmax and dropout do not count. A product of n x k and k x m counts 2nkm, so each weight counts 2 per position. Causal
attention counts only visible positions.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orchestrator.data.store import Prepared
from orchestrator.specs.schema import RunSpec
from orchestrator.training.batches import UpdateLoader
from orchestrator.training.phases import length
from orchestrator.training.state import Progress


class Tokens(NamedTuple):
    """Sums over pairs with S source and T target tokens, including EOS. src, tgt: sums of S and T.
    src2, tgt2, both: sums of S^2, T^2 and ST. pairs: number of pairs."""

    src: float
    tgt: float
    src2: float
    tgt2: float
    both: float
    pairs: float

    @classmethod
    def of(cls, src: Any, tgt: Any) -> "Tokens":
        """src, tgt: lengths [N] with EOS."""
        s, t = (np.asarray(side, dtype=np.float64) for side in (src, tgt))
        return cls(*(float(values.sum()) for values in (s, t, s * s, t * t, s * t, np.ones_like(s))))

    def scaled(self, factor: float) -> "Tokens":
        """Returns the sums for `factor` times as many pairs of the same average lengths."""
        return Tokens(*(value * factor for value in self))


@dataclass(frozen=True)
class Work:
    """Work of a model per token.

    src, tgt: number of weights applied to every source or target position. The decoder's key and value maps of the memory count for the
    source; the output layer is included. own_src, own_tgt, cross: widths of self-attention and cross-attention, summed.
    pair: weights applied to each pair, each as often as it is.
    """

    src: float
    tgt: float
    own_src: float
    own_tgt: float
    cross: float
    pair: float = 0.0

    def forward(self, tokens: Tokens) -> float:
        """Returns the FLOP of a forward pass over the pairs."""
        weights = 2 * (self.src * tokens.src + self.tgt * tokens.tgt + self.pair * tokens.pairs)
        attention = 4 * self.own_src * tokens.src2 + 2 * self.own_tgt * (tokens.tgt2 + tokens.tgt) + 4 * self.cross * tokens.both
        return weights + attention

    def training(self, tokens: Tokens) -> float:
        """Returns the FLOP of forward and backward pass. Each product of the forward pass has two in the backward pass."""
        return 3 * self.forward(tokens)


@dataclass(frozen=True)
class Length:
    """Length of a training.

    updates: an upper bound, because patience or a plateau may end it early. tokens: of a mean update.
    """

    updates: int
    tokens: Tokens
    validations: int


class Lengths:
    """Computes lengths of trainings; memoises the updates of data and batch, and the tokens of a split."""

    def __init__(self) -> None:
        self._loader = functools.cache(lambda prepared, batch: UpdateLoader(prepared.pairs("train"), batch, 1))
        self.split = functools.cache(_tokens)

    def training(self, spec: RunSpec, prepared: Prepared) -> Length:
        """Returns the length of a training. A restart begins an epoch, with its own batches if it has any."""
        restart, every = spec.optim.restart, spec.train.validate_every
        phases, progress = list[tuple[int, int]](), Progress()  # updates, and updates of an epoch
        for batch in (spec.batch, *([] if restart is None else [restart.batch or spec.batch])):
            loader = self._loader(prepared, batch)
            phases.append((length(spec, progress, loader), loader.updates_of(0, 1)))
            progress = Progress(step=phases[0][0], epoch=-(-phases[0][0] // phases[0][1]), phase=1)
        updates = sum(number for number, _ in phases)
        mean = self.split(prepared, "train").scaled(sum(number / one for number, one in phases) / updates)
        epochs = sum(-(-number // one) for number, one in phases)
        return Length(updates, mean, epochs if every == "epoch" else -(-updates // int(every)))


def _tokens(prepared: Prepared, split: str) -> Tokens:
    pairs = prepared.pairs(split)
    return Tokens.of(pairs.src_lengths + 1, pairs.tgt_lengths + 1)
