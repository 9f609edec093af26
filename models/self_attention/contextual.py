"""Self-attention with a context, of Wei et al. 2020."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from models.attention import MultiHeadAttention
from models.contextual import ContextFusion, CtxNorms, Gate
from models.registry import SELF_ATTENTIONS
from models.seams import SelfAttention
from models.site import Flow, Site
from models.sublayer import SubLayer


@SELF_ATTENTIONS.register("contextual")
class ContextualSelfAttention(SelfAttention):
    """O = SubLayer(x, q -> fuse(MHA(q, q, q), MHA_c(q, C, C))), C the context below the layer's block (Wei et al. 2020, Eq. 8-11).

    Of the encoder. Dropout stands behind the fusion. In post-norm the sub-layer's own norm moves behind the sum, and those of the context
    stay: nothing else would bring it to a scale.

    Args:
        gate: how the two attentions join. sigmoid: g * a_h + (1 - g) * a_c, with a learned gate g of both; add: a_h + a_c.
        ctx_norms: norms in front of the attention to the context. 1: of keys and values alone; 3: queries, keys and values have one each,
            as the paper's parameter counts ask for.
    """

    reads_context = True

    reads_stream = True

    def __init__(self, site: Site, *, gate: Gate = "sigmoid", ctx_norms: CtxNorms = 1) -> None:
        super().__init__(site)
        if site.side != "encoder" or site.config.context is None:
            raise ValueError("self_attention contextual stands in an encoder with a context")
        self.attention = MultiHeadAttention(site)
        self.fusion = ContextFusion(site, gate=gate, ctx_norms=ctx_norms)
        self.sublayer = SubLayer(site)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return None if site["side"] == "encoder" else "found contextual in the decoder; a context is of the source: expected single"

    def forward(self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, flow: Flow) -> Tensor:
        assert context is not None
        memory = flow.memory(context)
        return self.sublayer(x, lambda q: self.fusion(self.attention(q, q, flow), q, x, memory, flow))
