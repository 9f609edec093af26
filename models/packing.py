"""Padding-free rows: the real positions of a padded batch side by side, [1, P, D] for [B, S, D].

Everything that treats positions one by one then works on real positions only; attention unpacks its queries, keys and values.
Shapes: B sentences, S longest, P real positions, D width.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models.paths import PATHS

PACK_SHARE = 0.02
"""Padding from which a batch is packed; below it, packing costs more than it saves."""


def may_pack(device: torch.device) -> bool:
    """Whether batches are packed at all here: a fast path of training on a CPU."""
    return PATHS.packing and device.type == "cpu" and not torch.compiler.is_compiling()


def worth_packing(mask: Tensor) -> Packing | None:
    """The packing of a batch with much padding, None for one with little. mask: [B, S], True = real."""
    return Packing(mask) if int(mask.sum()) < (1.0 - PACK_SHARE) * mask.numel() else None


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x_ND.index_select(0, packing.real)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.packing.place).index_fill_(0, ctx.packing.padding, 0.0), None


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_PD: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x_PD.index_select(0, packing.place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.packing.real), None


class Packing:
    """Where the real positions of a batch stand. `mask`: [B, S], True = real."""

    def __init__(self, mask: Tensor) -> None:
        flat = mask.flatten()
        self.mask, self.shape = mask, mask.shape
        self.real = flat.nonzero().squeeze(1)
        self.padding = (~flat).nonzero().squeeze(1)
        self.place = (flat.cumsum(0) - 1).clamp_(min=0)

    @cached_property
    def starts(self) -> Tensor:
        """[B + 1]: the first row of each sentence, and the number of all."""
        return F.pad(self.mask.sum(1).cumsum(0), (1, 0))

    def pack(self, x_BSD: Tensor) -> Tensor:
        """[B, S, D] -> [1, P, D]"""
        return _Pack.apply(x_BSD.flatten(0, 1), self)[None]

    def unpack(self, x_1PD: Tensor) -> Tensor:
        """[1, P, D] -> [B, S, D]; padding holds copies of real rows, finite numbers that a mask must hide."""
        return _Unpack.apply(x_1PD[0], self).view(*self.shape, -1)

    def ones(self) -> Tensor:
        """The mask of packed rows: [1, P], all real."""
        return torch.ones(1, len(self.real), dtype=torch.bool, device=self.real.device)
