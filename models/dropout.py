"""Dropout with cheap exact masks on a CPU.

torch draws one float per element; here one 64-bit draw serves four elements: an element is kept where its 16 bits are at least p * 2^16,
so the
probability is right to 2^-17. Masks are fresh at every call and come from torch's default CPU generator, which the training loop seeds by
step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def keep_mask(like: Tensor, p: float) -> Tensor:
    """Boolean tensor of the shape of `like`, True with probability 1 - p."""
    n = like.numel()
    bits = torch.empty((n + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:n]
    return bits.ge(round(p * 65536) - 32768).view(like.shape)


class _MaskedScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, mask: Tensor, scale: float) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (x * mask).mul_(scale)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def]
        (mask,) = ctx.saved_tensors
        return (grad * mask).mul_(ctx.scale), None, None


class Dropout(nn.Module):
    """x_i / (1-p) with probability 1-p, else 0. `fast` is a class-wide switch; the slow path is torch's own."""

    fast = True

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if Dropout.fast and x.device.type == "cpu" and not torch.compiler.is_compiling():
            return _MaskedScale.apply(x, keep_mask(x, self.p), 1.0 / (1.0 - self.p))
        return F.dropout(x, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"
