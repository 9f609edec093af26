"""The Transformer's self-attention sub-layer."""

from __future__ import annotations

from torch import Tensor

from models.attention import MultiHeadAttention
from models.registry import SELF_ATTENTIONS
from models.seams import SelfAttention
from models.site import Flow, Site
from models.sublayer import SubLayer


@SELF_ATTENTIONS.register("single")
class SingleSelfAttention(SelfAttention):
    """C = SubLayer(x, q -> MHA(q, q, q)) (Vaswani et al. 2017); MHA(q, k, v) where the side's residual gives three views.

    `attention`: another MHA, of a subclass.
    """

    takes_views = True

    def __init__(self, site: Site, attention: MultiHeadAttention | None = None) -> None:
        super().__init__(site)
        self.attention = attention or MultiHeadAttention(site)
        self.sublayer = SubLayer(site)

    def forward(self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, flow: Flow) -> Tensor:
        return self.sublayer(x, lambda q, k=None, v=None: self.attention(q, q if k is None else k, flow, v))
