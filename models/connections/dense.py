"""Dou et al. 2018: dense connections, aggregation nodes in two orders, and attention to several layers."""

from itertools import pairwise
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import MultiHeadAttention
from models.config import Bounds, Probability
from models.dropout import Dropout
from models.plain import SubLayer
from models.registry import AGGREGATIONS, CONNECTIONS, REGULARIZERS, SELF_ATTENTIONS
from models.seams import Aggregation, Connection, Regularizer, SelfAttention
from models.site import Flow, History, Site

Activation = Literal["sigmoid", "relu", "attention"]
Residual = Literal["all", "top", "none"]


class AggregationNode(nn.Module):
    """AGG(x_1..x_n) = LN(F([x_1;..;x_n]) + R), F(x) = W2 s(W1 x + b1) + b2 (Dou et al. 2018, Eq. 7 and Table 4).

    W1: 4d x nd, W2: d x 4d; the inner width follows from the paper's parameter counts. s: sigmoid or relu. `attention`: F is one
    multi-head self-attention over the positions of [x_1;..;x_n], Q, K, V: nd -> d, with its own cache slot.
    R: `all`: x_1 + .. + x_n; `top`: the highest backbone state (index `top` of x, from 0); `none`: 0. `dropout` acts on F's output.
    """

    def __init__(
        self,
        site: Site,
        num_inputs: int,
        *,
        activation: Activation = "sigmoid",
        residual: Residual = "all",
        top: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d = site.d_model
        self.attends = activation == "attention"
        if self.attends:
            self.attention = MultiHeadAttention(site, d_query=num_inputs * d, d_memory=num_inputs * d)
        else:
            self.inner = nn.Linear(num_inputs * d, 4 * d)
            self.outer = nn.Linear(4 * d, d)
        self.norm = site.layer_norm()
        self.dropout = Dropout(dropout)
        self.activation, self.residual, self.top = activation, residual, top

    def forward(self, inputs: tuple[Tensor, ...], flow: Flow) -> Tensor:
        """n states [B, T, D] of this side -> [B, T, D]."""
        return self.norm(self._function(torch.cat(inputs, dim=-1), flow) + self._residual(inputs))

    def _function(self, x: Tensor, flow: Flow) -> Tensor:
        """F: [B, T, n D] -> [B, T, D]."""
        if self.attends:
            return self.dropout(self.attention(x, x, flow))
        s = torch.sigmoid if self.activation == "sigmoid" else torch.relu
        return self.dropout(self.outer(s(self.inner(x))))

    def _residual(self, inputs: tuple[Tensor, ...]) -> Tensor | float:
        """R: [B, T, D], or 0."""
        if self.residual == "none":
            return 0.0
        return inputs[self.top] if self.residual == "top" else sum(inputs[1:], inputs[0])


@AGGREGATIONS.register("iterative")
class Iterative(Aggregation):
    """G^1 = H^1; G^l = AGG(H^l, G^{l-1}) for l = 2..L; output G^L (Dou et al. 2018, section 3.1.1, Eq. 6). The nodes do not feed back.

    AGG(x) = LN(F(x) + R), F(x) = W2 s(W1 x + b1) + b2.

    Args:
        activation: s of a node's network F: sigmoid or relu; attention: F is one self-attention over the positions.
        residual: R of a node: all: the sum of its inputs; top: H^l; none: 0.
        dropout: probability of dropout of F's output.
    """

    reads_top = False
    min_layers = 2

    def __init__(self, site: Site, *, activation: Activation = "sigmoid", residual: Residual = "all", dropout: Probability = 0.0) -> None:
        super().__init__(site)
        self.nodes = nn.ModuleList(
            AggregationNode(site, 2, activation=activation, residual=residual, dropout=dropout) for _ in range(site.num_layers - 1)
        )

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        node = history.kept[1]
        for h, aggregate in zip(history.kept[2:], self.nodes, strict=True):
            node = aggregate((h, node), flow)
        return node


@CONNECTIONS.register("dense")
class Dense(Connection):
    """literal: H^1 = Layer(H^0); H^l = Layer(H^{l-1}) + sum_{i=1}^{l-1} H^i for l >= 2 (Dou et al. 2018, Eq. 4 as written).

    In the literal reading the sum is added after the layer's last norm. Only the norm has parameters. A running sum replaces the list H^i.

    Args:
        mode: literal: Eq. 4 as written; states grow as 2^l. layer_outputs: layer l >= 2 and the stack's output read u^1 + .. + u^{l-1}, the
            sum of the outputs u of the layers below; states grow linearly.
        final_norm: whether a norm is applied to the stack's output."""

    for_top = (("final_norm", True),)

    def __init__(self, site: Site, *, mode: Literal["literal", "layer_outputs"] = "literal", final_norm: bool = False) -> None:
        super().__init__(site)
        self.mode, self.num_layers = mode, site.num_layers
        self.norm = site.layer_norm() if final_norm else nn.Identity()

    @classmethod
    def needs_fp32(cls, site: dict[str, Any], **options: Any) -> str | None:
        normed = site["norm"] == "pre" or options.get("final_norm", False)
        if options.get("mode", "literal") != "literal" or normed or site["num_layers"] < 3:
            return None
        return "its state grows as 2^layers without a norm, and with it the rounding: log-probabilities would be off by 0.1 to 5 and more"

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        below = history.memo.get(self)
        kept = h if below is None or self.mode == "layer_outputs" else h + below
        history.memo[self] = kept if below is None else below + kept
        return kept

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        x = history.memo[self] if self.mode == "layer_outputs" and layer > 1 else history.kept[layer - 1]
        return self.norm(x) if layer == self.num_layers + 1 else x


@CONNECTIONS.register("hierarchical")
class Hierarchical(Connection):
    """G^1 = AGG(H^1, H^2); G^i = AGG(H^{2i-1}, H^{2i}, G^{i-1}) (Dou et al. 2018, section 3.1.1; options: Table 4).

    Layer 2i+1 reads G^i in place of H^{2i}; the stack's output is G^{L/2}. AGG(x) = LN(F(x) + R), F(x) = W2 s(W1 x + b1) + b2.
    G^{L/2} is not built if nothing reads the stack's output, or an aggregation reads only the layers.

    Args:
        activation: s of a node's network F: sigmoid or relu; attention: F is one self-attention over the positions.
        residual: R of a node: all: the sum of its inputs; top: H^{2i}; none: 0.
        dropout: probability of dropout of F's output.
    """

    def __init__(self, site: Site, *, activation: Activation = "sigmoid", residual: Residual = "all", dropout: Probability = 0.0) -> None:
        super().__init__(site)
        top_is_read = site.output and AGGREGATIONS.get(site.stack.aggregation["kind"]).reads_top
        inputs = ([2] + [3] * (site.num_layers // 2 - 1))[: None if top_is_read else -1]
        self.nodes = nn.ModuleList(
            AggregationNode(site, n, activation=activation, residual=residual, top=1, dropout=dropout) for n in inputs
        )

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["num_layers"] % 2:
            return f"hierarchical joins layers in pairs: num_layers {site['num_layers']} is odd; expected an even number"
        return None

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        if layer % 2 == 0 or layer == 1:
            return history.kept[layer - 1]
        i = (layer - 1) // 2
        below = () if i == 1 else (history.memo[self],)
        node: Tensor = self.nodes[i - 1]((history.kept[layer - 2], history.kept[layer - 1], *below), flow)
        history.memo[self] = node
        return node


@SELF_ATTENTIONS.register("multi_layer")
class MultiLayerSelfAttention(SelfAttention):
    """C_{-i} = MHA_i(query from H^{l-1}; keys, values from H^{l-i}), i = 1..k; C = AGG(C_{-1},..,C_{-k}) (Dou et al. 2018, section 3.1.2).

    Layers l <= k have plain self-attention. Each MHA_i has its own parameters. In pre-norm each lower state has its own norm.

    Args:
        k: number of layers that are attended to, at least 2 and less than the number of layers.
    """

    reads_stream = True

    def __init__(self, site: Site, *, k: Annotated[int, Bounds(ge=2)] = 2) -> None:
        super().__init__(site)
        self.reads = k if site.layer > k else 0
        self.attention = MultiHeadAttention(site)
        self.sublayer = SubLayer(site)
        if self.reads:
            self.deeper = nn.ModuleList(MultiHeadAttention(site) for _ in range(k - 1))
            self.norms = nn.ModuleList(site.layer_norm() if site.norm == "pre" else nn.Identity() for _ in range(k - 1))
            self.node = AggregationNode(site, k)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        k = options.get("k", 2)
        return None if k < site["num_layers"] else f"k {k} needs more than {k} layers; num_layers is {site['num_layers']}"

    def forward(self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, flow: Flow) -> Tensor:
        if not self.reads:
            return self.sublayer(x, lambda q: self.attention(q, q, flow))

        def attend(q: Tensor) -> Tensor:
            others = [mha(q, norm(h), flow) for mha, norm, h in zip(self.deeper, self.norms, lower[1:], strict=True)]
            return self.node((self.attention(q, q, flow), *others), flow)

        return self.sublayer(x, attend)


@REGULARIZERS.register("diversity")
class Diversity(Regularizer):
    """D = mean over l = 1..L-1 and over real positions of 1 - cos^2(H^l, H^{l+1}) (Dou et al. 2018, Eq. 9-10); loss = NLL - weight * D.

    H^l is what the connection keeps of layer l: the layer's output, not an aggregation node. With dlcl (pre-norm) and corrector it is the
    normed output; with the literal dense connection it includes the sum. `forward` returns the sum of cos^2 - 1: the loss adds this term.

    Args:
        weight: factor of D in the loss (the paper's lambda).
        sides: the stacks whose layers count: both, encoder or decoder.
    """

    def __init__(self, site: Site, *, weight: float = 1.0, sides: Literal["both", "encoder", "decoder"] = "both") -> None:
        super().__init__(site)
        self.weight, self.sides = weight, sides

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        chosen = options.get("sides", "both")
        for side in ("encoder", "decoder"):
            if chosen in ("both", side) and site[f"{side}_layers"] < 2:
                return f"diversity is of neighbouring layers; {side}.num_layers is 1; expected 2 or more, or sides without {side}"
        return super().check(site, **options)

    def applies(self, side: str) -> bool:
        return self.sides in ("both", side)

    def forward(self, history: History, mask: Tensor) -> tuple[Tensor, Tensor]:
        layers = history.kept[1:]
        total = torch.zeros((), device=mask.device)
        for below, above in pairwise(layers):
            cosine = F.cosine_similarity(below.float(), above.float(), dim=-1)
            total = total + ((cosine.square() - 1.0) * mask).sum()
        return total, mask.sum() * (len(layers) - 1)
