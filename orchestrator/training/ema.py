"""Exponential moving average of the weights (Polyak and Juditsky 1992; the warm-up of the decay as in TensorFlow)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class MovingAverage:
    """a_t = d_t a_(t-1) + (1 - d_t) w_t, d_t = min(decay, (1 + t) / (10 + t)), in fp32; a_0 are the first weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach() for name, p in model.named_parameters()}
        self.average = {name: p.clone() for name, p in self.weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After update `step` (from 1)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.values()), list(self.weights.values()), 1.0 - decay)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Of a checkpoint."""
        for name, average in self.average.items():
            average.copy_(tensors[name])
