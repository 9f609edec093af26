"""Cross-attention with a context, of Wei et al. 2020."""

from __future__ import annotations

from torch import Tensor

from models.cross_attention.single import SingleCrossAttention
from models.registry import CROSS_ATTENTIONS
from models.self_attention.contextual import ContextFusion, CtxNorms, Gate
from models.site import Flow, Memory, Site


@CROSS_ATTENTIONS.register("contextual")
class ContextualCrossAttention(SingleCrossAttention):
    """S = SubLayer(O, q -> fuse(MHA(q, b^n, b^n), MHA_c(q, C^n, C^n))) in decoder layer n (Wei et al. 2020, Eq. 12-13).

    In a layer with one memory it is `single`.

    Args:
        gate: how the two attentions join. sigmoid: g * a_h + (1 - g) * a_c, with a learned gate g of both; add: a_h + a_c.
        ctx_norms: norms in front of the attention to the context. 1: of keys and values alone; 3: queries, keys and values have one each,
            as the paper's parameter counts ask for.
    """

    max_memories = 2

    reads_stream = True

    def __init__(self, site: Site, *, gate: Gate = "sigmoid", ctx_norms: CtxNorms = 1) -> None:
        super().__init__(site)
        two = len(site.memory_dims) == 2
        self.fusion = ContextFusion(site, gate=gate, ctx_norms=ctx_norms, d_memory=site.memory_dims[1]) if two else None

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        fusion = self.fusion
        if fusion is None:
            return super().forward(x, memories, flow)
        return self.sublayer(x, lambda q: fusion(self.attention.over(q, memories[0], flow), q, x, memories[1], flow))
