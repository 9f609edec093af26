"""Matrices made doubly stochastic, with a backward pass that keeps little but the matrices given.

Shapes: n rows and columns, N matrices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def sinkhorn(logits: Tensor, iterations: int, axes: tuple[int, int]) -> Tensor:
    """exp(logits) [.., n, n], `iterations` times divided by its sums over one axis, then over the other; -1: rows sum to 1, -2: columns.

    (Sinkhorn and Knopp 1967.) The first iteration is done in logarithms. After it all sums lie between 1/n and n, however far apart the
    logits are; before it a whole row or column of exponentials may be 0 in fp32.
    """
    r = _inner(logits)
    for axis in axes:
        r = r - r.logsumexp(axis - 1, keepdim=True)
    r, others = r.exp(), (iterations - 1) * axes
    if torch.compiler.is_compiling():
        for axis in others:
            r = r / r.sum(axis - 1, keepdim=True)
        return _outer(r, logits.shape)
    return _outer(_Balance.apply(r, others), logits.shape)


class _Balance(torch.autograd.Function):
    """[n, n, N]: the numbers of one place of all matrices lie side by side. Sums over four numbers at a time take several times as long."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, axes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(r)
        ctx.axes = axes
        return _balance(r.clone(), axes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (r,) = ctx.saved_tensors
        sums: list[Tensor] = []
        y = _balance(r.clone(), ctx.axes, sums)
        grad = grad.clone(memory_format=torch.contiguous_format)
        for axis, total in zip(reversed(ctx.axes), reversed(sums), strict=True):  # y = x / sum x
            grad.sub_((grad * y).sum(axis - 1, keepdim=True)).div_(total)
            y.mul_(total)
        return grad, None


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
    return r.permute(2, 0, 1).reshape(shape)
