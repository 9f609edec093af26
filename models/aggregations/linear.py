"""Linear combination of layers, Dou et al. 2018."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("linear")
class LinearCombination(Aggregation):
    """narrow: h = sum_l W_l H^l, W_l in R^{d x d} (Dou et al. 2018, Eq. 5 as written).

    wide: h = W2 (W1 [H^1;..;H^L] + b1) + b2, W1: 4d x Ld, W2: d x 4d: the reading that meets the paper's parameter count.
    Pre-norm states are not normalised, so there one norm follows.

    Args:
        mode: wide: two linear maps with a bias, 4 d_model wide between them; narrow: one linear map for each layer.
    """

    reads_top = False

    def __init__(self, site: Site, *, mode: Literal["wide", "narrow"] = "wide") -> None:
        super().__init__(site)
        d, inputs = site.d_model, site.num_layers * site.d_model
        self.combine: nn.Module = nn.Linear(inputs, d, bias=False)
        if mode == "wide":
            self.combine = nn.Sequential(nn.Linear(inputs, 4 * d), nn.Linear(4 * d, d))
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        return self.norm(self.combine(torch.cat(history.kept[1:], dim=-1)))
