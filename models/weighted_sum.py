"""Weighted sums of states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def weighted_sum(weights: Tensor, states: Sequence[Tensor]) -> Tensor:
    """sum_k w_k y_k over the states y_k. Autograd keeps each state once, however many sums read it."""
    total = weights[0] * states[0]
    for w, y in zip(weights[1:], states[1:], strict=True):
        total = torch.addcmul(total, w, y)
    return total
