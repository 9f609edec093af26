"""Cross-attention over two memories, side by side."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.cross_attention.single import SingleCrossAttention
from models.memory import Memory
from models.registry import CROSS_ATTENTIONS
from models.site import Flow, Site
from models.sublayer import SubLayer


@CROSS_ATTENTIONS.register("gated_sum")
class GatedSumCrossAttention(SingleCrossAttention):
    """D = SubLayer(C, q -> MHA(q, H_e, H_e)); R = SubLayer(C, q -> MHA(q, H_r, H_r)); l = s(W [D; R] + b); l * D + (1 - l) * R

    (Hao et al. 2019, section 3.3, gated sum). In a layer with one memory it is `single`.
    """

    max_memories = 2

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        two = len(site.memory_dims) == 2
        self.extra_attention = MultiHeadAttention(site, d_memory=site.memory_dims[1]) if two else None
        self.extra_sublayer = SubLayer(site) if two else None
        self.gate = nn.Linear(2 * site.d_model, site.d_model) if two else None

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        attended = super().forward(x, memories, flow)
        extra = self.extra_attention
        if extra is None or self.extra_sublayer is None or self.gate is None:
            return attended
        recurrent = self.extra_sublayer(x, lambda q: extra.over(q, memories[1], flow))
        share = torch.sigmoid(self.gate(torch.cat((attended, recurrent), dim=-1)))
        return share * attended + (1.0 - share) * recurrent
