"""Label-smoothed cross entropy without the full logits.

Shapes: P real target positions, D d_model, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from models.precision import operand

CHUNK = 512
"""Positions per chunk: on a CPU, the chunk's logits fit into the last-level cache; `CHUNK_CUDA` fills a GPU's multiprocessors."""
CHUNK_CUDA = 8192


class _ChunkedLoss(torch.autograd.Function):
    """The loss whose forward pass also computes the gradients, chunk by chunk. Smoothing adds the same term for every word, so sums over
    the vocabulary are computed without logits: sum_v z_v = h . sum_v w_v + sum_v b_v, and (p - off) W = p W - off sum_v w_v.
    """

    @staticmethod
    def forward(ctx: Any, hidden_PD, weight_VD, bias_V, target_P, real_P, smoothing, needs_grad, fused):  # type: ignore[no-untyped-def]
        device = hidden_PD.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_PD.dtype
        with torch.autocast(device, enabled=False):
            h_PD, weight = operand(hidden_PD, dtype), operand(weight_VD, dtype)
            off = smoothing / (weight.shape[0] - 1)
            full = torch.promote_types(dtype, torch.float32)
            loss, nll = torch.zeros(2, device=hidden_PD.device, dtype=full)
            d_hidden = torch.empty_like(hidden_PD) if needs_grad else None
            d_weight = torch.zeros_like(weight_VD) if needs_grad else None
            d_bias = torch.zeros_like(bias_V) if needs_grad and bias_V is not None else None
            for rows in chunks(h_PD):
                h, gold = h_PD[rows], target_P[rows, None]
                real = None if real_P is None else real_P[rows, None]
                z = (h @ weight.t()).to(dtype)
                if fused is not None and bias_V is None and d_hidden is not None:
                    p, z_gold, lse = fused(z, gold, real, smoothing + off - 1.0)
                else:
                    z = z.to(full)
                    if bias_V is not None:
                        z += bias_V
                    z_gold = z.gather(1, gold)
                    if d_hidden is None:
                        p, lse = None, z.logsumexp(dim=-1, keepdim=True)
                    else:
                        p = z.softmax(dim=-1)
                        # the largest p is at least 1/V, so its logarithm is exact; torch's logsumexp is five times slower on a CPU
                        lse = z.amax(dim=-1, keepdim=True) - p.amax(dim=-1, keepdim=True).log()
                        p.scatter_add_(1, gold, torch.full_like(z_gold, smoothing + off - 1.0))
                        if real is not None:
                            p *= real
                        if d_bias is not None:
                            d_bias += p.sum(0)
                        p = operand(p, dtype)
                if d_hidden is not None and d_weight is not None:
                    d_hidden[rows] = (p @ weight).to(dtype)
                    if dtype == d_weight.dtype:
                        d_weight.addmm_(p.t(), h)
                    else:
                        d_weight += (p.t() @ h).to(dtype).float()  # torch adds tensors of two types slowly
                nll_P, loss_P = lse - z_gold, lse - (1.0 - smoothing - off) * z_gold
                nll += nll_P.sum() if real is None else (nll_P * real).sum()
                loss += loss_P.sum() if real is None else (loss_P * real).sum()
            if smoothing:
                count_P = torch.ones_like(target_P, dtype=full) if real_P is None else real_P.to(full)
                w_D, h_D, count = weight_VD.sum(0), count_P @ hidden_PD.to(full), count_P.sum()
                loss -= off * torch.dot(h_D, w_D)
                if bias_V is not None:
                    loss -= off * count * bias_V.sum()
                if d_hidden is not None and d_weight is not None:
                    d_hidden -= off * torch.outer(count_P, w_D)
                    d_weight -= off * h_D
                    if d_bias is not None:
                        d_bias -= off * count
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, grad_nll: Tensor):  # type: ignore[no-untyped-def]
        d_hidden, d_weight, d_bias = (None if d is None else d.mul_(grad_loss) for d in ctx.saved_tensors)
        return d_hidden, d_weight, d_bias, None, None, None, None, None


def gradient_rows(z_PV: Tensor, gold_P1: Tensor, real_P1: Tensor | None, at_gold: float) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (softmax(z), plus at_gold at the gold word, in the type of z; z at the gold word; log sum exp(z)), computed in fp32.
    Compiled, it reads the logits twice and writes them once; otherwise each operation reads and writes them."""
    z = z_PV.float()
    top = z.amax(-1, keepdim=True)
    e = (z - top).exp()
    total = e.sum(-1, keepdim=True)
    is_gold = torch.arange(z.shape[-1], device=z.device) == gold_P1
    p = e / total + torch.where(is_gold, at_gold, 0.0)
    p = p if real_P1 is None else p * real_P1
    return p.to(z_PV.dtype), z.gather(1, gold_P1), top + total.log()


def chunks(h_PD: Tensor) -> list[slice]:
    """Returns slices of the rows of [P, D]. Only the logits of one slice exist at a time."""
    size = CHUNK_CUDA if h_PD.is_cuda else CHUNK
    return [slice(start, start + size) for start in range(0, h_PD.shape[0], size)]


def label_smoothed_loss(
    hidden_PD: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    target_P: Tensor,
    smoothing: float,
    real_P: Tensor | None = None,
    fused: Callable[..., tuple[Tensor, Tensor, Tensor]] | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns (loss, nll), both summed over positions.
    loss = -sum_v q_v log p_v with q = 1 - smoothing at the target and smoothing / (V - 1) elsewhere (Vaswani et al. 2017, section 5.4).
    real_P: 1.0 for positions that count, 0.0 for padding; None: all positions count. fused: `gradient_rows`, compiled."""
    needs_grad = torch.is_grad_enabled() and (hidden_PD.requires_grad or weight_VD.requires_grad)
    return _ChunkedLoss.apply(hidden_PD, weight_VD, bias_V, target_P, real_P, float(smoothing), needs_grad, fused)
