"""The plain Transformer (Vaswani et al. 2017): the default for each part that a variant may replace."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import MultiHeadAttention
from models.config import options
from models.dropout import Dropout
from models.registry import AGGREGATIONS, BRIDGES, CONNECTIONS, CROSS_ATTENTIONS, LAYERS, RESIDUALS, SELF_ATTENTIONS, construct
from models.seams import Aggregation, Bridge, Connection, CrossAttention, Layer, Residual, SelfAttention
from models.site import Flow, History, Memory, Site


class SubLayer(nn.Module):
    """pre: x + drop(f(LN(x))); post: LN(x + drop(f(x))) (Vaswani et al. 2017, section 3.1 and its pre-norm form); none: without LN.
    A residual other than `plain` defines what f reads and how its output joins the stream. Each view has its own norm.
    """

    def __init__(self, site: Site, width: int | None = None) -> None:
        super().__init__()
        component = site.stack.residual if site.place else {"kind": "plain"}
        self.residual: Residual = RESIDUALS.get(component["kind"])(site, **options(component))
        self.pre = site.norm == "pre"
        normed = self.pre or (site.norm == "post" and self.residual.post_norm)
        self.norm: nn.Module = site.layer_norm(width) if normed else nn.Identity()
        self.dropout = Dropout(site.config.dropout.residual)
        self.others = nn.ModuleList(site.layer_norm(width) for _ in range(self.residual.views - 1 if self.pre else 0))

    def forward(self, s: Any, function: Callable[..., Tensor]) -> Any:
        """Returns the stream after the sub-layer. s: the stream, [B, T, D] unless the residual has `streams`."""
        residual = self.residual
        x, s = residual.read(s)
        if residual.views > 1:
            x, *others = (norm(v) for norm, v in zip((self.norm, *self.others), x, strict=True)) if self.pre else x
            y = function(x, *others)
        else:
            x = self.norm(x) if self.pre else x
            y = function(x)
        s = residual.write(s, y, x, self.dropout)
        return s if self.pre else residual.normed(s, self.norm)


class FeedForward(nn.Module):
    """W2 act(W1 x + b1) + b2 (Vaswani et al. 2017, Eq. 2)."""

    def __init__(self, site: Site, width: int | None = None) -> None:
        super().__init__()
        self.inner = nn.Linear(width or site.d_model, site.config.d_ff)
        self.outer = nn.Linear(site.config.d_ff, width or site.d_model)
        self.dropout = Dropout(site.config.dropout.ffn)
        self.activation = getattr(F, site.config.activation)

    rectified: Callable[[Tensor], Tensor] | None = None  # x -> max(W1 x + b1, 0) in one product, prepared by `models.inference`

    def forward(self, x: Tensor) -> Tensor:
        if self.rectified is not None:
            return self.outer(self.rectified(x))
        x = self.inner(x)
        return self.outer(self.dropout.relu(x) if self.activation is F.relu else self.dropout(self.activation(x)))


@RESIDUALS.register("plain")
class PlainResidual(Residual):
    """x + y (Vaswani et al. 2017)."""


@CONNECTIONS.register("residual")
class PlainConnection(Connection):
    """x_{l+1} = h_l: each layer reads the layer below (the residual sums are inside the layer)."""

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        return history.kept[layer - 1]


@SELF_ATTENTIONS.register("single")
class SingleSelfAttention(SelfAttention):
    """C = SubLayer(x, q -> MHA(q, q, q)) (Vaswani et al. 2017); MHA(q, k, v) if the side's residual gives three views.

    `attention`: the MHA of a subclass; None: MultiHeadAttention.
    """

    takes_views = True

    def __init__(self, site: Site, attention: MultiHeadAttention | None = None) -> None:
        super().__init__(site)
        self.attention: MultiHeadAttention = attention or construct(MultiHeadAttention, site)
        self.sublayer = SubLayer(site)

    def forward(self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, flow: Flow) -> Tensor:
        return self.sublayer(x, lambda q, k=None, v=None: self.attention(q, q if k is None else k, flow, v))


@CROSS_ATTENTIONS.register("single")
class SingleCrossAttention(CrossAttention):
    """D = SubLayer(C, q -> MHA(q, memory, memory)) (Vaswani et al. 2017)."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.attention: MultiHeadAttention = construct(MultiHeadAttention, site, d_memory=site.memory_dims[0])
        self.sublayer = SubLayer(site)

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        return self.sublayer(x, lambda q: self.attention.over(q, memories[0], flow))


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
        self.feed_forward: FeedForward = construct(FeedForward, site)
        self.sublayer = SubLayer(site.at(place=self.sublayers(site), role="ffn"))
        self.reads = self.self_attention.reads
        own, zero = self.sublayer.residual, site.config.zero_residual
        for part in self.modules():
            if isinstance(part, MultiHeadAttention | FeedForward):
                first, last = (part.value, part.output) if isinstance(part, MultiHeadAttention) else (part.inner, part.outer)
                if own.initial_gain != 1.0:
                    first.initial_gain = last.initial_gain = own.initial_gain  # type: ignore[assignment]
                if zero and not own.starts_as_identity:
                    last.starts_at_zero = True  # type: ignore[assignment]

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


@AGGREGATIONS.register("top")
class Top(Aggregation):
    """h = x_{L+1}; in pre-norm h = LN(x_{L+1})."""

    top_alone = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        return self.norm(x_top)


@BRIDGES.register("top")
class TopBridge(Bridge):
    """memories_l = (h_enc,) for every decoder layer l (Vaswani et al. 2017)."""

    any_width = True

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        return [(flow.memory(encoded),)] * self.num_layers
