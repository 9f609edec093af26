"""Dropout with cheap exact masks on a CPU.

One 64-bit draw of torch's default generator gives the masks of four elements. An element is kept if its 16 bits are at least p * 2^16, so
the probability is exact to 2^-17. Masks have the type of their factor, since torch's kernels for booleans are several times slower. The
backward pass computes the mask again from its bits.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.paths import PATHS


def draw_bits(like: Tensor) -> Tensor:
    """Returns uniform int16 numbers in the shape of `like`, from torch's own generator."""
    n = like.numel()
    draws = torch.empty((n + 3) // 4, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    return draws.view(torch.int16)[:n].view(like.shape)


def keep_mask(bits: Tensor, p: float, dtype: torch.dtype) -> Tensor:
    """Returns the mask in `dtype`: 1 with probability 1 - p (kept), else 0."""
    return torch.ge(bits, round(p * 65536) - 32768, out=torch.empty(bits.shape, dtype=dtype, device=bits.device))


class _Drop(torch.autograd.Function):
    """x * m / (1 - p)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        bits = draw_bits(x)
        ctx.save_for_backward(bits)
        ctx.p = p
        return keep_mask(bits, p, x.dtype).mul_(x).mul_(1.0 / (1.0 - p))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return keep_mask(bits, ctx.p, grad.dtype).mul_(grad).mul_(1.0 / (1.0 - ctx.p)), None


class _DropAdd(torch.autograd.Function):
    """x + y * m / (1 - p) in the type of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: float) -> Tensor:
        bits = draw_bits(y)
        ctx.save_for_backward(bits)
        ctx.p, ctx.dtype = p, y.dtype
        return torch.addcmul(x, y.to(x.dtype), keep_mask(bits, p, x.dtype), value=1.0 / (1.0 - p))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (bits,) = ctx.saved_tensors
        mask = keep_mask(bits, ctx.p, ctx.dtype)
        return grad, mask.mul_(grad.to(ctx.dtype)).mul_(1.0 / (1.0 - ctx.p)), None


class _DropReLU(torch.autograd.Function):
    """y = max(x, 0) * m / (1 - p). y itself is the mask of the backward pass: the gradient passes exactly where y is positive."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        y = keep_mask(draw_bits(x), p, x.dtype).mul_(torch.relu(x)).mul_(1.0 / (1.0 - p))
        ctx.save_for_backward(y)
        ctx.p = p
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, y, 0.0).mul_(1.0 / (1.0 - ctx.p)), None


class Dropout(nn.Module):
    """x_i / (1-p) with probability 1-p, else 0."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self._drops:
            return x
        return _Drop.apply(x, self.p) if self._cheap(x) else F.dropout(x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + drop(y)"""
        return _DropAdd.apply(x, y, self.p) if self._drops and self._cheap(y) and x.shape == y.shape else x + self(y)

    def relu(self, x: Tensor) -> Tensor:
        """drop(max(x, 0))"""
        return _DropReLU.apply(x, self.p) if self._drops and self._cheap(x) else self(torch.relu(x))

    @property
    def _drops(self) -> bool:
        return self.training and self.p > 0.0

    @staticmethod
    def _cheap(x: Tensor) -> bool:
        return PATHS.dropout and x.device.type == "cpu" and not torch.compiler.is_compiling()
