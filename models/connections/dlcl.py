"""Dynamic linear combination of layers, of Wang et al. 2019."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.registry import CONNECTIONS
from models.running_mix import RunningMix
from models.seams import Connection
from models.site import Flow, History, Site


@CONNECTIONS.register("dlcl")
class Dlcl(Connection):
    """x_{l+1} = sum_{k=0}^{l} W_{l+1,k} LN_k(h_k), LN_0 the identity (Wang et al. 2019, "Learning deep Transformer models", Eq. 5-6).

    W is lower triangular, learned, not normalised; each row starts as the average. The stack's output is the last row's mixture. As in the
    authors' code post-norm has its norms behind the sums instead: x_{l+1} = LN_l(sum_k W_{l+1,k} h_k), and W has L+1 squared entries, of
    which those above the diagonal stay 0. y_k is kept once, whatever the number of layers that read it (models.running_mix).
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.weight = nn.Parameter(torch.zeros(site.num_layers + 1, site.num_layers + 1))
        self.norms = nn.ModuleList(site.layer_norm() for _ in range(site.num_layers))
        self.pre = site.norm == "pre"

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        weight = torch.ones_like(self.weight, device="cpu").tril()
        return weight / weight.sum(1, keepdim=True)

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        y = self.norms[layer - 1](h) if self.pre else h
        mix = RunningMix.of(self, history, lambda: self.weight)
        return y if mix is None else mix.put(y, layer)

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        mix, row = RunningMix.of(self, history, lambda: self.weight), self.weight[layer - 1, :layer]
        x = torch.tensordot(row, torch.stack(history.kept), dims=1) if mix is None else mix.read(row)
        return x if self.pre or layer == 1 else self.norms[layer - 2](x)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """W; a reader is x_1 .. x_{L+1}, a source y_0 .. y_L."""
        return {"layers": self.weight.masked_fill(torch.ones_like(self.weight).triu(1).bool(), torch.nan)}
