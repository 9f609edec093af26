"""Products of hyper-connections: n streams read, mixed and written, with backward passes of their own.

Shapes: n streams, D numbers in a stream; leading axes are tokens. Streams are fp32. Autograd by itself keeps copies of the streams for each
product, and adds up their gradients product by product; here a sub-layer keeps the streams once, and their gradient is made on its way
down: what reads the streams hands them on, and only the last to read them writes new ones. Under a compiler, and where nothing learns, the
plain forms run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def _plain() -> bool:
    return torch.compiler.is_compiling() or not torch.is_grad_enabled()


def normed_product(s: Tensor, weight: Tensor, eps: float, *, centred: bool = False) -> tuple[Tensor, Tensor]:
    """(rms(s) W, s) of s [.., D] and W [D, E]; centred: LN(s) W, LN without gain and offset."""
    if centred:
        weight = weight - weight.mean(0)  # the mean of s counts for nothing in a product with it
    if _plain():
        return (s @ weight) * _scale(s, eps, centred)[..., None], s
    product, s = _NormedProduct.apply(s, weight, eps, centred)
    return product, s


def read(s: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """(sum_a p_a s_a [.., D], s) of s [.., n, D] and p [.., n]"""
    if _plain():
        return (p[..., None] * s).sum(-2), s
    x, s = _Read.apply(s, p)
    return x, s


def write(s: Tensor, r: Tensor, q: Tensor, y: Tensor) -> Tensor:
    """s'_a = sum_b R_ab s_b + q_a y: s [.., n, D], R [.., n, n], q [.., n], y [.., D] -> [.., n, D]"""
    if _plain():
        return r @ s + q[..., None] * y[..., None, :]
    new: Tensor = _Write.apply(s, r, q, y)
    return new


def _scale(s: Tensor, eps: float, centred: bool) -> Tensor:
    """[.., D] -> 1 / sqrt(mean s^2 + eps) [..]; centred: of s less its mean."""
    mean = s.var(-1, unbiased=False) if centred else s.square().mean(-1)
    return (mean + eps).rsqrt()


class _NormedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, weight: Tensor, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
        scale = _scale(s, eps, centred)
        product = (s @ weight).mul_(scale[..., None])
        ctx.save_for_backward(s, weight, scale, product)
        ctx.centred = centred
        return product, s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, d_s: Tensor) -> tuple[Tensor, Tensor, None, None]:
        s, weight, scale, product = ctx.saved_tensors
        by_size = (grad * product).sum(-1).mul_(scale.square()).div_(s.shape[-1])
        grad = (grad * scale[..., None]).flatten(0, -2)
        d_s = torch.addmm(d_s.flatten(0, -2), grad, weight.t()).view(s.shape)
        d_s.addcmul_(s, by_size[..., None], value=-1.0)
        if ctx.centred:
            d_s.add_((by_size * s.mean(-1))[..., None])
        return d_s, s.flatten(0, -2).t() @ grad, None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(s, p)
        return _sum(s, p), s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, d_s: Tensor) -> tuple[Tensor, Tensor]:
        s, p = ctx.saved_tensors
        return torch.addcmul(d_s, p[..., None], grad[..., None, :]), (s * grad[..., None, :]).sum(-1)


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, r: Tensor, q: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(s, r, q, y)
        return _add_mixed(q[..., None] * y[..., None, :].to(s.dtype), r, s)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        s, r, q, y = ctx.saved_tensors
        d_r = torch.stack([(one[..., None, :] * s).sum(-1) for one in grad.unbind(-2)], dim=-2)
        d_q = (grad * y[..., None, :].to(grad.dtype)).sum(-1)
        d_s = _add_mixed(torch.zeros_like(s), r.mT, grad)
        return d_s, d_r, d_q, _sum(grad, q).to(y.dtype)


def _sum(s: Tensor, p: Tensor) -> Tensor:
    """sum_a p_a s_a [.., D]"""
    first, *others = zip(s.unbind(-2), p[..., None].unbind(-2), strict=True)
    total = first[0] * first[1]
    for stream, weight in others:
        total.addcmul_(stream, weight)
    return total


def _add_mixed(out: Tensor, r: Tensor, s: Tensor) -> Tensor:
    """out_a + sum_b R_ab s_b, in the place of out"""
    for stream, column in zip(s.unbind(-2), r.unbind(-1), strict=True):
        out.addcmul_(column[..., None], stream[..., None, :])
    return out
