"""Recurrence over the source: a bidirectional RNN, and an attentive RNN (Hao et al. 2019, section 3).

Both are scans over the steps with gradients by hand (models.rnn_scan, models.arn_scan).
Shapes: B sentences, S positions, T steps, D width of the input, d units of a direction. `mask` [B, S]: True = real.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from models.arn_scan import ArnScan
from models.gru import GRUS, Gru
from models.packing import Packing
from models.rnn_scan import RnnScan, ScanSchedule
from models.site import Site


def mean_states(x_BSD: Tensor, mask: Tensor, d: int) -> Tensor:
    """[2, B, d]: the mean over a sentence's real positions starts both directions; of a mean 2d wide, one half each."""
    weight = mask.to(x_BSD.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
    mean = torch.bmm(weight[:, None], x_BSD).squeeze(1)
    return (mean.unflatten(1, (-1, d)) if mean.shape[1] > d else mean[:, None].expand(-1, 2, -1)).transpose(0, 1)


def _single(*tensors: Tensor | None) -> list[Tensor | None]:
    """States are kept in fp32 where the maps around them run in half precision (autocast)."""
    return [t.float() if t is not None and t.dtype in (torch.bfloat16, torch.float16) else t for t in tensors]


class BiRnn(nn.Module):
    """h_j = [f_j; b_j]: f from left to right, b from right to left, over real positions; both `start` at the mean of the inputs or at 0."""

    def __init__(self, site: Site, d_input: int, gru: str, *, start: Literal["mean", "zero"] = "mean") -> None:
        super().__init__()
        self.d, self.start = site.d_model, start
        self.gru: Gru = GRUS[gru](site, d_input)

    def forward(self, x: Tensor, mask: Tensor, packing: Packing | None = None) -> tuple[Tensor, Tensor]:
        """[B, S, D], or packed rows [1, P, D] -> (states 2d wide in the same form, mask); padding holds zeros."""
        if self.start == "zero":
            h = x.new_zeros(2, len(mask), self.d)
        else:
            h = mean_states(x if packing is None else packing.unpack(x), mask, self.d)
        a = self.gru.products(x)
        with torch.autocast(x.device.type, enabled=False):
            parts = _single(a, h, self.gru.state, self.gru.state_offset())
            return RnnScan.apply(*parts, ScanSchedule(mask, packing), self.gru.kind).view(*x.shape[:-1], -1), mask


class BiArn(nn.Module):
    """At each step both chains attend to the inputs and take in what they found (Hao et al. 2019, Eq. 9-13).

    h_t = GRU_f(Att(h_{t-1}), h_{t-1}), t = 1..T; g_t = GRU_b(Att(g_{t+1}), g_{t+1}), t = T..1; slot t = [h_t; g_t]
    Att(s) = sum_j softmax_j(v tanh(W_q s + W_k x_j)) x_j, the same for both directions (additive, Bahdanau et al. 2015).
    `steps` "J": each sentence takes as many steps as it has inputs.
    """

    def __init__(self, site: Site, d_input: int, gru: str, steps: int | str) -> None:
        super().__init__()
        self.d, self.steps = site.d_model, steps
        self.gru: Gru = GRUS[gru](site, d_input)
        self.query = nn.Linear(site.d_model, site.d_model, bias=False)
        self.key = nn.Linear(d_input, site.d_model, bias=False)
        self.score = nn.Linear(site.d_model, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor, packing: Packing | None = None) -> tuple[Tensor, Tensor]:
        """[B, S, D] -> ([B, T, 2d], [B, T]); slots beyond a sentence's own steps hold zeros."""
        h, keys = mean_states(x, mask, self.d), self.key(x)
        bias = torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_fill(~mask, -1e9)
        if self.steps == "J":
            lengths, order = mask.sum(1).sort(descending=True, stable=True)
            active = (lengths > torch.arange(mask.shape[1], device=mask.device)[:, None]).sum(1).tolist()
            states = self._scan(x[order], keys[order], bias[order], h[:, order], active)[:, :, order.argsort()]
        else:
            states = self._scan(x, keys, bias, h, [len(mask)] * int(self.steps))
        forward, backward = states.transpose(1, 2)
        if self.steps != "J":
            return torch.cat((forward, backward.flip(1)), -1), mask.new_ones(len(mask), states.shape[1])
        last = mask.sum(1, keepdim=True) - 1 - torch.arange(mask.shape[1], device=mask.device)
        slots = last >= 0
        backward = backward.gather(1, last.clamp(min=0)[..., None].expand_as(backward))
        return torch.cat((forward, backward), -1) * slots[..., None], slots

    def _scan(self, x: Tensor, keys: Tensor, bias: Tensor, h: Tensor, active: list[int]) -> Tensor:
        """[2, T, B, d]"""
        gru = self.gru
        with torch.autocast(x.device.type, enabled=False):
            parts = _single(x, keys, bias, h, self.query.weight, self.score.weight[0], gru.input, gru.input_offset())
            return ArnScan.apply(*parts, gru.state, gru.state_offset(), active, gru.kind)
