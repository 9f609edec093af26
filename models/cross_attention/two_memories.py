"""Cross-attention that may have a second memory (Hao et al. 2019, section 3.3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.cross_attention.single import SingleCrossAttention
from models.registry import CROSS_ATTENTIONS
from models.site import Flow, Memory, Site
from models.sublayer import SubLayer


class TwoMemories(SingleCrossAttention):
    """In a layer with one memory it is `single`; with two, `extra` attends to the second one in a sub-layer of its own."""

    max_memories = 2

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.extra_attention: MultiHeadAttention | None = None
        if len(site.memory_dims) == 2:
            self.extra_attention = MultiHeadAttention(site, d_memory=site.memory_dims[1])
            self.extra_sublayer = SubLayer(site.at(place=site.place + 1))

    @classmethod
    def sublayers(cls, site: Site) -> int:
        return len(site.memory_dims)

    def extra(self, x: Tensor, memory: Memory, flow: Flow) -> Tensor:
        """SubLayer(x, q -> MHA(q, H_r, H_r))"""
        attention = self.extra_attention
        assert attention is not None
        return self.extra_sublayer(x, lambda q: attention.over(q, memory, flow))


@CROSS_ATTENTIONS.register("gated_sum")
class GatedSumCrossAttention(TwoMemories):
    """D = SubLayer(C, q -> MHA(q, H_e, H_e)); R = SubLayer(C, q -> MHA(q, H_r, H_r)); l = s(W [D; R] + b); l * D + (1 - l) * R

    (Hao et al. 2019, section 3.3, gated sum).
    """

    reads_stream = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.gate = None if self.extra_attention is None else nn.Linear(2 * site.d_model, site.d_model)

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        attended = super().forward(x, memories, flow)
        if self.gate is None:
            return attended
        recurrent = self.extra(x, memories[1], flow)
        share = torch.sigmoid(self.gate(torch.cat((attended, recurrent), dim=-1)))
        return share * attended + (1.0 - share) * recurrent


@CROSS_ATTENTIONS.register("stacked")
class StackedCrossAttention(TwoMemories):
    """D = SubLayer(C, q -> MHA(q, H_e, H_e)); R = SubLayer(D, q -> MHA(q, H_r, H_r)) (Hao et al. 2019, section 3.3, stack)."""

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        attended = super().forward(x, memories, flow)
        return attended if self.extra_attention is None else self.extra(attended, memories[1], flow)
