"""Attention to a block's context beside a layer's own attention (Wei et al. 2020).

Shapes: B sentences, T queries, S keys, D model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.registry import SELF_ATTENTIONS
from models.seams import SelfAttention
from models.site import Flow, Memory, Site
from models.sublayer import SubLayer

Gate = Literal["sigmoid", "add"]
CtxNorms = Literal[1, 3]


class ContextAttention(MultiHeadAttention):
    """Att_c = MHA(q, LN_c(C), LN_c(C)) with maps of its own (Wei et al. 2020, Eq. 9 and 12).

    ctx_norms 1: q is the query of the layer's own attention. 3: q = LN_q(x), and keys and values have a norm each; three more norms a
    layer are what the paper's parameter counts ask for, it does not say where they stand.
    """

    def __init__(self, site: Site, *, ctx_norms: CtxNorms, d_memory: int | None = None) -> None:
        super().__init__(site, d_memory=d_memory)
        self.key_norm = site.layer_norm(d_memory)
        self.query_norm = site.layer_norm() if ctx_norms == 3 else None
        self.value_norm = site.layer_norm(d_memory) if ctx_norms == 3 else None

    def keys_values(self, memory: Memory) -> tuple[Tensor, Tensor]:
        keys = self.key_norm(memory.keys)
        return self.key(keys), self.value(keys if self.value_norm is None else self.value_norm(memory.keys))


class ContextFusion(nn.Module):
    """sigmoid: g * a_h + (1 - g) * a_c, g = s(W_h a_h + W_c a_c + b), element by element (Wei et al. 2020, Eq. 10-11); add: a_h + a_c.

    Attention maps are those of a_h; a_c leaves no trace.
    """

    def __init__(self, site: Site, *, gate: Gate, ctx_norms: CtxNorms, d_memory: int | None = None) -> None:
        super().__init__()
        self.attention = ContextAttention(site, ctx_norms=ctx_norms, d_memory=d_memory)
        self.own = nn.Linear(site.d_model, site.d_model, bias=False) if gate == "sigmoid" else None
        self.context = nn.Linear(site.d_model, site.d_model) if gate == "sigmoid" else None

    def forward(self, a_h: Tensor, q: Tensor, x: Tensor, context: Memory, flow: Flow) -> Tensor:
        """a_h [B, T, D]: the layer's own attention; q: its query; x: what the sub-layer read."""
        norm = self.attention.query_norm
        a_c = self.attention.over(q if norm is None else norm(x), context, flow if flow.trace is None else replace(flow, trace=None))
        if self.own is None or self.context is None:
            return a_h + a_c
        g = torch.sigmoid(self.own(a_h) + self.context(a_c))
        return torch.lerp(a_c, a_h, g)


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
