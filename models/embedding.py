"""Words and positions become h_0."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.site import Site


def sinusoids(start: int, stop: int, d_model: int, device: torch.device) -> Tensor:
    """[stop - start, d_model] (Vaswani et al. 2017, section 3.5): sines in the first half, cosines in the second, as in tensor2tensor."""
    half = d_model // 2
    rate = torch.exp(torch.arange(half, device=device, dtype=torch.float32) * -(math.log(10000.0) / max(half - 1, 1)))
    angle = torch.arange(start, stop, device=device, dtype=torch.float32)[:, None] * rate
    table = torch.cat((angle.sin(), angle.cos()), dim=1)
    return nn.functional.pad(table, (0, d_model - 2 * half))


class InputEmbedding(nn.Module):
    """h_0 = drop(E[w] * sqrt(d) + b + position); `bias` is the d-long vector that THUMT adds on the source side."""

    def __init__(self, site: Site, words: nn.Embedding, *, bias: bool) -> None:
        super().__init__()
        self.words = words
        self.scale = math.sqrt(site.d_model) if site.config.embedding_scale else 1.0
        self.bias = nn.Parameter(torch.zeros(site.d_model)) if bias else None
        self.positions = site.config.positions
        self.dropout = Dropout(site.config.dropout.embedding)

    def forward(self, tokens_BT: Tensor, past: int = 0) -> Tensor:
        """`past`: how many positions stand before the first one given."""
        return self.placed(self.scaled(tokens_BT), past)

    def scaled(self, tokens_BT: Tensor) -> Tensor:
        """E[w] * sqrt(d) + b: the words alone."""
        x = self.words(tokens_BT) * self.scale
        return x if self.bias is None else x + self.bias

    def placed(self, x_BTD: Tensor, past: int = 0, positions_BT: Tensor | None = None) -> Tensor:
        """drop(x + position); positions count from `past` on, unless they are given."""
        if self.positions == "sinusoidal" and positions_BT is not None:
            table = sinusoids(0, x_BTD.shape[1], x_BTD.shape[-1], x_BTD.device).to(x_BTD.dtype)
            x_BTD = x_BTD + table[positions_BT]
        elif self.positions == "sinusoidal":
            x_BTD = x_BTD + sinusoids(past, past + x_BTD.shape[1], x_BTD.shape[-1], x_BTD.device).to(x_BTD.dtype)
        return self.dropout(x_BTD)
