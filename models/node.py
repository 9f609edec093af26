"""The aggregation node of Dou et al. 2018."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.site import Site


class AggregationNode(nn.Module):
    """AGG(x_1..x_n) = LN(W2 s(W1 [x_1;..;x_n] + b1) + b2 + x_1 + .. + x_n) (Dou et al. 2018, Eq. 7).

    W1: 4d x nd, W2: d x 4d; the inner width is settled by the paper's parameter counts. No dropout inside.
    """

    def __init__(self, site: Site, num_inputs: int, *, activation: str) -> None:
        super().__init__()
        d = site.d_model
        self.inner = nn.Linear(num_inputs * d, 4 * d)
        self.outer = nn.Linear(4 * d, d)
        self.norm = site.layer_norm()
        self.activation = {"sigmoid": torch.sigmoid, "relu": torch.relu}[activation]

    def forward(self, *inputs: Tensor) -> Tensor:
        total = inputs[0]
        for x in inputs[1:]:
            total = total + x
        return self.norm(self.outer(self.activation(self.inner(torch.cat(inputs, dim=-1)))) + total)
