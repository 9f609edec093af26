"""Cross-attention that may have a second memory (Hao et al. 2019, section 3.3): what its ways of reading two have in common."""

from __future__ import annotations

from torch import Tensor

from models.attention import MultiHeadAttention
from models.cross_attention.single import SingleCrossAttention
from models.memory import Memory
from models.site import Flow, Site
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
