"""Recurrence over the source: a bidirectional RNN, and an attentive RNN (Hao et al. 2019, section 3).

Shapes: B sentences, S positions, T steps, D width of the input, d units of a direction. `mask` [B, S]: True = real.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.gru import GRUS, Gru
from models.site import Site


def mean_states(x_BSD: Tensor, mask: Tensor, d: int) -> Tensor:
    """[2, B, d]: the mean over a sentence's real positions starts both directions; of a mean 2d wide, one half each."""
    weight = mask.to(x_BSD.dtype)
    mean = (weight[:, None] @ x_BSD).squeeze(1) / weight.sum(1, keepdim=True).clamp(min=1.0)
    return (mean.unflatten(1, (-1, d)) if mean.shape[1] > d else mean[:, None].expand(-1, 2, -1)).transpose(0, 1)


def reading_order(mask: Tensor) -> Tensor:
    """[2, B, S]: the position read at each step, a sentence's real ones first: from its first to its last, from its last to its first."""
    forward = (~mask).to(torch.int8).argsort(dim=1, stable=True)
    step = torch.arange(mask.shape[1], device=mask.device)
    last = mask.sum(1, keepdim=True) - 1 - step
    return torch.stack((forward, forward.gather(1, torch.where(last >= 0, last, step))))


class BiRnn(nn.Module):
    """h_j = [f_j; b_j]: f from left to right, b from right to left, each from the mean of its inputs (`start` mean) or from 0."""

    aligned = True

    def __init__(self, site: Site, d_input: int, gru: str, *, start: str = "mean") -> None:
        super().__init__()
        self.d, self.start = site.d_model, start
        self.gru: Gru = GRUS[gru](site, d_input)

    def forward(self, x_BSD: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, D] -> ([B, S, 2d], mask); padding holds zeros."""
        h = mean_states(x_BSD, mask, self.d)
        if self.start == "zero":
            h = torch.zeros_like(h)
        order = reading_order(mask)
        a = self.gru.products(x_BSD).permute(2, 0, 1, 3)
        a = a.gather(2, order[..., None].expand_as(a))
        states = []
        for t in range(mask.shape[1]):
            h = self.gru.cell(a[:, :, t], h)
            states.append(h)
        out = torch.stack(states, dim=2)
        out = torch.zeros_like(out).scatter(2, order[..., None].expand_as(out), out)
        return torch.cat((out[0], out[1]), dim=-1) * mask[..., None], mask


class BiArn(nn.Module):
    """At each step both chains attend to the inputs and take in what they found (Hao et al. 2019, Eq. 9-13).

    h_t = GRU_f(Att(h_{t-1}), h_{t-1}), t = 1..T; g_t = GRU_b(Att(g_{t+1}), g_{t+1}), t = T..1; slot t = [h_t; g_t]
    Att(s) = sum_j softmax_j(v tanh(W_q s + W_k x_j)) x_j, the same for both directions (additive, Bahdanau et al. 2015).
    `steps` "J": each sentence takes as many steps as it has inputs.
    """

    aligned = False

    def __init__(self, site: Site, d_input: int, gru: str, steps: int | str) -> None:
        super().__init__()
        self.d, self.steps = site.d_model, steps
        self.gru: Gru = GRUS[gru](site, d_input)
        self.query = nn.Linear(site.d_model, site.d_model, bias=False)
        self.key = nn.Linear(d_input, site.d_model, bias=False)
        self.score = nn.Linear(site.d_model, 1, bias=False)

    def forward(self, x_BSD: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, D] -> ([B, T, 2d], [B, T]); slots beyond a sentence's own steps hold zeros."""
        h = mean_states(x_BSD, mask, self.d)
        keys = self.key(x_BSD)
        bias = torch.zeros(mask.shape, dtype=keys.dtype, device=keys.device).masked_fill(~mask, -1e9)
        own = self.steps == "J"
        steps = mask.shape[1] if own else int(self.steps)
        states = []
        for _ in range(steps):
            energy = torch.tanh(self.query(h)[:, :, None] + keys)
            weights = (self.score(energy).squeeze(-1) + bias).softmax(-1).to(x_BSD.dtype)
            found = torch.einsum("kbs,bsd->kbd", weights, x_BSD)
            a = torch.stack([product[:, k] for k, product in enumerate(self.gru.products(found))])
            h = self.gru.cell(a, h)
            states.append(h)
        forward, backward = torch.stack(states, dim=2)
        if not own:
            return torch.cat((forward, backward.flip(1)), -1), mask.new_ones(len(mask), steps)
        step = torch.arange(steps, device=mask.device)
        last = mask.sum(1, keepdim=True) - 1 - step
        slots = last >= 0
        backward = backward.gather(1, last.clamp(min=0)[..., None].expand_as(backward))
        return torch.cat((forward, backward), -1) * slots[..., None], slots
