"""The Transformer layer, encoder and decoder side."""

from __future__ import annotations

from torch import Tensor

from models.attention import MultiHeadAttention
from models.config import options
from models.registry import CROSS_ATTENTIONS, LAYERS, RESIDUALS, SELF_ATTENTIONS
from models.seams import CrossAttention, Layer, SelfAttention
from models.site import Flow, Memory, Site
from models.sublayer import FeedForward, SubLayer


@LAYERS.register("transformer")
class TransformerLayer(Layer):
    """C = SelfAttention(x); D = CrossAttention(C, memories) on the decoder side; h = SubLayer(D, FFN) (Vaswani et al. 2017)."""

    takes_residual = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        stack = site.stack
        make = SELF_ATTENTIONS.get(stack.self_attention["kind"])
        self.self_attention: SelfAttention = make(site.at(place=1, role="self"), **options(stack.self_attention))
        self.cross_attention: CrossAttention | None = None
        if stack.cross_attention is not None and site.memory_dims:
            make = CROSS_ATTENTIONS.get(stack.cross_attention["kind"])
            self.cross_attention = make(site.at(place=2, role="cross"), **options(stack.cross_attention))
        residual = RESIDUALS.get(stack.residual["kind"])
        self.feed_forward = FeedForward(site, inner=residual.ffn_width(site, **options(stack.residual)))
        self.sublayer = SubLayer(site.at(place=self.sublayers(site), role="ffn"))
        self.reads = self.self_attention.reads
        if (gain := self.sublayer.residual.initial_gain) != 1.0:
            for part in self.modules():
                if isinstance(part, MultiHeadAttention):
                    part.value.initial_gain = part.output.initial_gain = gain  # type: ignore[assignment]
                elif isinstance(part, FeedForward):
                    part.inner.initial_gain = part.outer.initial_gain = gain  # type: ignore[assignment]
        if (gain := self.sublayer.residual.output_gain) != 1.0:
            for part in self.modules():
                if isinstance(part, MultiHeadAttention | FeedForward):
                    last = part.output if isinstance(part, MultiHeadAttention) else part.outer
                    last.initial_gain = gain  # type: ignore[assignment]
        for part in self.modules() if site.config.zero_residual and not self.sublayer.residual.starts_as_identity else ():
            if isinstance(part, MultiHeadAttention):
                part.output.starts_at_zero = True  # type: ignore[assignment]
            elif isinstance(part, FeedForward):
                part.outer.starts_at_zero = True  # type: ignore[assignment]

    @classmethod
    def sublayers(cls, site: Site) -> int:
        cross = site.stack.cross_attention
        return 2 + (CROSS_ATTENTIONS.get(cross["kind"]).sublayers(site) if cross is not None and site.memory_dims else 0)

    def forward(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        attended = None
        x = self.self_attention(x, lower, context, flow)
        if self.cross_attention is not None:
            x = attended = self.cross_attention(x, memories, flow)
        return self.sublayer(x, self.feed_forward), attended
