"""An attentive RNN's steps: both chains attend to the inputs and take in what they found.

Shapes: B sentences, S inputs of width D, T steps, d units of a direction, n sentences of a step; the leading 2 are the directions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.gru_scan import CELLS, add_product

LARGEST = 80.0
"""Of an exponent, so that no power is 0 or infinite, whose product would be no number; tanh is 1 long before 40."""


def powers(x: Tensor) -> Tensor:
    return x.clamp_(-LARGEST, LARGEST).exp_()


def halved(keys_nSd: Tensor, queries_2nd: Tensor, buffer: Tensor) -> Tensor:
    """(1 + tanh(q + k)) / 2 of every pair, [2, n, S, d] in the buffer; arguments: exp(-2q), exp(-2k)."""
    out = buffer[: 2 * keys_nSd.numel()].view(2, *keys_nSd.shape)
    return torch.addcmul(keys_nSd.new_ones(()), keys_nSd, queries_2nd[:, :, None], out=out).reciprocal_()


class ArnScan(torch.autograd.Function):
    """c = sum_j softmax_j(v tanh(q + k_j) + bias_j) x_j, q = W_q h; a = W c + b; h' = GRU(a, h); -> states [2, T, B, d].

    active: how many sentences take part in each step, the first ones; slots of the others hold zeros.
    tanh(q + k) = 2s - 1 with s = 1 / (1 + exp(-2q) exp(-2k)), its derivative 4 s (1 - s): one exponential for each q and each k, none for
    a pair of them. The constant cancels in the softmax, and so does its gradient, for gradients of scores sum to 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # [B, S, D]
        keys: Tensor,  # [B, S, d]
        bias: Tensor,  # [B, S]
        h: Tensor,  # [2, B, d]
        query: Tensor,  # [d, d]
        v: Tensor,  # [d]
        weight: Tensor,  # [2, 3d, D]
        offset: Tensor,  # [2, 3d]
        state_weight: Tensor,  # [2, 3d, d]
        state_bias: Tensor | None,  # [2, 3d]
        active: list[int],
        kind: str,
    ) -> Tensor:
        (B, S, D), d, T = x.shape, h.shape[-1], len(active)
        gates, candidate, states = h.new_zeros(2, T * B, 2 * d), h.new_zeros(2, T * B, d), h.new_zeros(2, (T + 1) * B, d)
        cell = CELLS[kind](gates, candidate, state_weight, state_bias)
        states[:, :B] = h
        keys = powers(-2.0 * keys)
        of_query, of_input, twice_v = (-2.0 * query).T, weight.mT.contiguous(), (2.0 * v)[:, None]
        queries, found = torch.zeros_like(candidate), h.new_zeros(2, T * B, D)
        weights = h.new_zeros(B, T, 2, S)
        energy = h.new_empty(2 * B * S * d)
        for t, n in enumerate(active):
            if n == 0:
                break
            at = slice(t * B, t * B + n)
            queries[:, at] = powers(states[:, at] @ of_query)
            s = halved(keys[:n], queries[:, at], energy)
            scores = (s @ twice_v).squeeze(-1).add_(bias[:n])
            weights[:n, t] = scores.softmax(-1).transpose(0, 1)
            c = found[:, at].copy_(torch.bmm(weights[:n, t], x[:n]).transpose(0, 1))
            a = torch.baddbmm(offset[:, None], c, of_input)
            gates[:, at], candidate[:, at] = a[..., : 2 * d], a[..., 2 * d :]
            cell.step(at, states[:, at], states[:, at.start + B : at.stop + B])
        ctx.save_for_backward(x, query, v, weight)
        ctx.kept = (cell, states, keys, queries, found, weights)
        ctx.active = active
        return states[:, B:].view(2, T, B, d)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grad.device.type, enabled=False):
            return _backward(ctx, grad)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, query, v, weight = ctx.saved_tensors
    cell, states, keys, queries, found, weights = ctx.kept
    (B, S, D), d = x.shape, states.shape[-1]
    before = states[:, : states.shape[1] - B]
    cell.begin(before)
    dh, d_queries = grad.new_zeros(2, B, d), torch.zeros_like(queries)
    d_found, d_keys, d_v = (
        torch.zeros_like(weights[..., :1]).expand(-1, -1, -1, D).contiguous(),
        torch.zeros_like(keys),
        torch.zeros_like(v),
    )
    energy = grad.new_empty(2 * B * S * d)
    slope = 4.0 * v
    for t in reversed(range(len(ctx.active))):
        n, at = ctx.active[t], slice(t * B, t * B + ctx.active[t])
        if n == 0:
            continue
        dh_n = dh[:, :n].add_(grad[:, t, :n])
        cell.back(at, dh_n)
        d_c = add_product(torch.bmm(cell.d_gates[:, at], weight[:, : 2 * d]), cell.d_candidate[:, at], weight[:, 2 * d :])
        d_found[:n, t] = d_c.transpose(0, 1)
        d_weights = torch.bmm(d_found[:n, t], x[:n].mT)
        d_scores = torch._softmax_backward_data(d_weights, weights[:n, t], -1, x.dtype).transpose(0, 1).reshape(2 * n, 1, S)
        s = halved(keys[:n], queries[:, at], energy).view(2 * n, S, d)
        d_v += torch.bmm(d_scores, s).sum((0, 1))
        torch.addcmul(s, s, s, value=-1.0, out=s)
        d_q = torch.mul(torch.bmm(d_scores, s).view(2, n, d), slope, out=d_queries[:, at])
        dh_n += d_q @ query
        for s_k, part in zip(s.split(n), d_scores.view(2, n, S, 1), strict=True):
            d_keys[:n].addcmul_(s_k, part)
    d_a = torch.cat((cell.d_gates, cell.d_candidate), dim=-1)
    d_x = torch.bmm(weights.flatten(1, 2).mT, d_found.flatten(1, 2))
    d_query = torch.bmm(d_queries.mT, before).sum(0)
    d_weight = torch.bmm(d_a.mT, found)
    return d_x, d_keys.mul_(slope), None, dh, d_query, 2.0 * d_v, d_weight, d_a.sum(1), *cell.weight_gradients(), None, None
