"""Matrices made doubly stochastic, with a backward pass that keeps nothing but the matrices given.

Shapes: n rows and columns, N matrices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def sinkhorn(r: Tensor, iterations: int, axes: tuple[int, int]) -> Tensor:
    """r [.., n, n], positive: `iterations` times divided by its sums over one axis, then over the other; -1: rows sum to 1, -2: columns.

    (Sinkhorn and Knopp 1967.) A compiler is given the plain form.
    """
    if torch.compiler.is_compiling():
        for axis in iterations * axes:
            r = r / r.sum(axis, keepdim=True)
        return r
    balanced: Tensor = _Sinkhorn.apply(r, iterations * axes)
    return balanced


class _Sinkhorn(torch.autograd.Function):
    """The numbers of one place of all matrices lie side by side, [n, n, N]: sums over four numbers at a time take several times as long."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, axes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(r)
        ctx.axes = axes
        return _outer(_balance(_inner(r), axes), r.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (r,) = ctx.saved_tensors
        sums: list[Tensor] = []
        y = _inner(r)
        _balance(y, ctx.axes, sums)
        grad = _inner(grad)
        for axis, total in zip(reversed(ctx.axes), reversed(sums), strict=True):  # y = x / sum x
            grad.sub_((grad * y).sum(axis - 1, keepdim=True)).div_(total)
            y.mul_(total)
        return _outer(grad, r.shape), None


def _balance(r: Tensor, axes: tuple[int, ...], sums: list[Tensor] | None = None) -> Tensor:
    """In place; an axis is one of [.., n, n]."""
    for axis in axes:
        total = r.sum(axis - 1, keepdim=True)
        r.div_(total)
        if sums is not None:
            sums.append(total)
    return r


def _inner(r: Tensor) -> Tensor:
    """[.., n, n] -> [n, n, N], a copy"""
    return r.flatten(0, -3).permute(1, 2, 0).clone(memory_format=torch.contiguous_format) if r.dim() > 2 else r[..., None].clone()


def _outer(r: Tensor, shape: torch.Size) -> Tensor:
    return r.permute(2, 0, 1).view(shape)
