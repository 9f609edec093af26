"""A factor of the gradient alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x; its gradient is multiplied by `factor` on the way back."""
    return _Scale.apply(x, factor)
