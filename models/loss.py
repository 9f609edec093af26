"""Label-smoothed cross entropy without the full logits.

Shapes: P real target positions, D d_model, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 1024


class _ChunkedLoss(torch.autograd.Function):
    """Gradients are made in the forward pass, chunk by chunk, so that no [P, V] tensor outlives its chunk."""

    @staticmethod
    def forward(ctx, hidden_PD, weight_VD, bias_V, target_P, smoothing, needs_grad):  # type: ignore[no-untyped-def]
        autocast = torch.is_autocast_enabled(hidden_PD.device.type)
        dtype = torch.get_autocast_dtype(hidden_PD.device.type) if autocast else hidden_PD.dtype
        with torch.autocast(hidden_PD.device.type, enabled=False):
            weight = weight_VD.to(dtype)
            off = smoothing / (weight.shape[0] - 1)
            loss = torch.zeros((), device=hidden_PD.device, dtype=torch.float32)
            nll = torch.zeros((), device=hidden_PD.device, dtype=torch.float32)
            d_hidden = torch.empty_like(hidden_PD) if needs_grad else None
            d_weight = torch.zeros_like(weight_VD) if needs_grad else None
            d_bias = torch.zeros_like(bias_V) if needs_grad and bias_V is not None else None
            for start in range(0, hidden_PD.shape[0], CHUNK):
                h = hidden_PD[start : start + CHUNK].to(dtype)
                gold = target_P[start : start + CHUNK, None]
                z = (h @ weight.t()).float()
                if bias_V is not None:
                    z += bias_V
                lse = z.logsumexp(dim=-1, keepdim=True)
                z_gold = z.gather(1, gold)
                nll += (lse - z_gold).sum()
                loss += (lse - (1.0 - smoothing - off) * z_gold).sum()
                if smoothing:
                    loss -= off * z.sum()
                if d_hidden is not None:
                    p = z.sub_(lse).exp_()
                    if smoothing:
                        p -= off
                    p.scatter_add_(1, gold, torch.full_like(z_gold, smoothing + off - 1.0))
                    if d_bias is not None:
                        d_bias += p.sum(0)
                    p = p.to(dtype)
                    d_hidden[start : start + CHUNK] = p @ weight
                    d_weight += p.t() @ h
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, grad_loss, grad_nll):  # type: ignore[no-untyped-def]
        d_hidden, d_weight, d_bias = (None if d is None else d.mul_(grad_loss) for d in ctx.saved_tensors)
        return d_hidden, d_weight, d_bias, None, None, None


def label_smoothed_loss(
    hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_P: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """(loss, nll), both summed over positions.

    loss = -sum_v q_v log p_v with q = 1 - smoothing at the target and smoothing / (V - 1) elsewhere (Vaswani et al. 2017, section 5.4).
    """
    needs_grad = torch.is_grad_enabled() and (hidden_PD.requires_grad or weight_VD.requires_grad)
    return _ChunkedLoss.apply(hidden_PD, weight_VD, bias_V, target_P, float(smoothing), needs_grad)
