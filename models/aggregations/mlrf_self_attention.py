"""MLRF fusion by multi-hop layer self-attention, Wang et al. 2018."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.mlrf import Activation, FusionNetwork, FusionStates
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("mlrf-self-attention")
class MlrfSelfAttention(Aggregation):
    """E_n = s(Z~ W1) W2; a = softmax_l(E_n), per hop; s_p = sum_l a_p^l z~^l; z = LN(FNN([s_1;..;s_n_hop])) (Wang et al. 2018, 3.2.3).

    W1: d x d_a, W2: d_a x n_hop, both without bias; the softmax runs over the layers, at each position by itself.

    Args:
        n_hop: hops, that is weighted sums over the layers that are put side by side.
        d_a: inner width of the energies, the columns of W1.
        d_f: inner width of the network FNN over the hops.
        w1: shared: one W1; layer: W1^l for each state l (footnote 4); hop: W1_p for each hop p, with column p of W2.
        attention_activation: s of the energies: tanh (as in Lin et al. 2017) or relu.
        activation: activation of the network FNN, relu or tanh.
        word_embedding: whether the embedded words z^0 are one of the states; else they begin with layer 1.
        layer_embedding: whether z~^l = z^l + E_l, with a learned vector E_l for each layer; encoder and decoder share one table of E.
    """

    reads_top = False

    def __init__(
        self,
        site: Site,
        *,
        n_hop: int = 4,
        d_a: int = 1024,
        d_f: int = 512,
        w1: Literal["shared", "layer", "hop"] = "shared",
        attention_activation: Activation = "tanh",
        activation: Activation = "relu",
        word_embedding: bool = True,
        layer_embedding: bool = True,
    ) -> None:
        super().__init__(site)
        self.states = FusionStates(site, words=word_embedding, layers=layer_embedding)
        copies = {"shared": 1, "layer": self.states.count, "hop": n_hop}[w1]
        maps = [nn.Linear(site.d_model, d_a, bias=False) for _ in range(copies)]
        self.energy_in = maps[0] if w1 == "shared" else nn.ModuleList(maps)
        self.energy_out = nn.Linear(d_a, n_hop, bias=False)
        self.w1 = w1
        self.activation = torch.tanh if attention_activation == "tanh" else torch.relu
        self.network = FusionNetwork(site, n_hop, d_f, activation)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        n_hop = options.get("n_hop", 4)
        return None if n_hop >= 1 else f"n_hop is {n_hop}; expected at least 1"

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        z_BTLD = torch.stack(self.states(history), dim=-2)
        a_BTLP = self._energy(z_BTLD).softmax(dim=-2)
        if flow.trace is not None:
            flow.trace.append((self, a_BTLP))
        s_BTPD = a_BTLP.to(z_BTLD.dtype).transpose(-2, -1) @ z_BTLD
        return self.network(s_BTPD.flatten(-2))

    def _energy(self, z_BTLD: Tensor) -> Tensor:
        """[B, T, L+1, D] -> [B, T, L+1, P]"""
        s = self.activation
        if isinstance(self.energy_in, nn.Linear):
            return self.energy_out(s(self.energy_in(z_BTLD)))
        if self.w1 == "layer":
            return self.energy_out(s(torch.stack([w(z) for w, z in zip(self.energy_in, z_BTLD.unbind(-2), strict=True)], dim=-2)))
        columns = self.energy_out.weight.split(1)
        return torch.cat([nn.functional.linear(s(w(z_BTLD)), w2) for w, w2 in zip(self.energy_in, columns, strict=True)], dim=-1)
