"""The Transformer's cross-attention sub-layer."""

from __future__ import annotations

from torch import Tensor

from models.attention import MultiHeadAttention
from models.registry import CROSS_ATTENTIONS
from models.seams import CrossAttention
from models.site import Flow, Memory, Site
from models.sublayer import SubLayer


@CROSS_ATTENTIONS.register("single")
class SingleCrossAttention(CrossAttention):
    """D = SubLayer(C, q -> MHA(q, memory, memory)) (Vaswani et al. 2017)."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.attention = MultiHeadAttention(site, d_memory=site.memory_dims[0])
        self.sublayer = SubLayer(site)

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        return self.sublayer(x, lambda q: self.attention.over(q, memories[0], flow))
