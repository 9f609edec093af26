"""MLRF fusion by multi-hop layer self-attention, Wang et al. 2018."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.mlrf import FusionNetwork, FusionStates
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("mlrf-self-attention")
class MlrfSelfAttention(Aggregation):
    """E_n = tanh(Z~ W1) W2; a = softmax_l(E_n), per hop; s_p = sum_l a_p^l z~^l; z = LN(FNN([s_1;..;s_n_hop])) (Wang et al. 2018, 3.2.3).

    W1: d x d_a, W2: d_a x n_hop, both without bias; the softmax runs over the layers, at each position by itself.
    """

    reads_top = False

    def __init__(
        self,
        site: Site,
        *,
        n_hop: int = 4,
        d_a: int = 1024,
        d_f: int = 512,
        word_embedding: bool = True,
        layer_embedding: bool = True,
    ) -> None:
        super().__init__(site)
        self.states = FusionStates(site, words=word_embedding, layers=layer_embedding)
        self.energy_in = nn.Linear(site.d_model, d_a, bias=False)
        self.energy_out = nn.Linear(d_a, n_hop, bias=False)
        self.network = FusionNetwork(site, n_hop, d_f)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        n_hop = options.get("n_hop", 4)
        return None if n_hop >= 1 else f"n_hop is {n_hop}; expected at least 1"

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        z_BTLD = torch.stack(self.states(history), dim=-2)
        a_BTLP = self.energy_out(torch.tanh(self.energy_in(z_BTLD))).softmax(dim=-2)
        if flow.trace is not None:
            flow.trace.append((self, a_BTLP))
        s_BTPD = a_BTLP.to(z_BTLD.dtype).transpose(-2, -1) @ z_BTLD
        return self.network(s_BTPD.flatten(-2))
