"""Where a model computes in fp32 whatever the type of its products."""

from __future__ import annotations

import torch
from torch import Tensor


def full_precision(x: Tensor) -> torch.autocast:
    """A context without autocast, for coefficients that few bits would spoil."""
    return torch.autocast(x.device.type, enabled=False)


def rms(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean x^2 + eps) over the last axis, in fp32, without a gain."""
    x = x.float()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()
