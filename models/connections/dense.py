"""Dense connections and hierarchical aggregation of Dou et al. 2018."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from models.aggregations.iterative import Activation, AggregationNode, Residual
from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site


@CONNECTIONS.register("dense")
class Dense(Connection):
    """literal: H^1 = Layer(H^0); H^l = Layer(H^{l-1}) + sum_{i=1}^{l-1} H^i for l >= 2 (Dou et al. 2018, Eq. 4 as written).

    In the literal reading the sum is added after the layer's last norm. No parameters but the norm's; a running sum stands for the H^i.

    Args:
        mode: literal: Eq. 4 as written, which grows as 2^l; layer_outputs: layer l >= 2, and the stack's output, read u^1 + .. + u^{l-1},
            the sum of the outputs u of the layers below, which grows linearly.
        final_norm: whether a norm stands over the stack's output.
    """

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
    """G^1 = AGG(H^1, H^2); G^i = AGG(H^{2i-1}, H^{2i}, G^{i-1}) (Dou et al. 2018, section 3.1.3, Eq. 6-7; options: Table 4).

    Layer 2i+1 reads G^i in place of H^{2i}; the stack's output is G^{L/2}. AGG(x) = LN(F(x) + R), F(x) = W2 s(W1 x + b1) + b2.

    Args:
        activation: s of a node's network F: sigmoid or relu; attention: F is one self-attention over the positions.
        residual: R of a node: all: the sum of its inputs; top: H^{2i}; none: 0.
        dropout: probability of dropout of F's output.
    """

    def __init__(self, site: Site, *, activation: Activation = "sigmoid", residual: Residual = "all", dropout: float = 0.0) -> None:
        super().__init__(site)
        inputs = [2] + [3] * (site.num_layers // 2 - 1)
        self.nodes = nn.ModuleList(
            AggregationNode(site, n, activation=activation, residual=residual, top=1, dropout=dropout) for n in inputs
        )

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["num_layers"] % 2:
            return f"hierarchical joins layers in pairs: num_layers {site['num_layers']} is odd; expected an even number"
        return AggregationNode.check(options.get("dropout", 0.0))

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        if layer % 2 == 0 or layer == 1:
            return history.kept[layer - 1]
        i = (layer - 1) // 2
        # layer 2i-1 read G^{i-1}, so the node below stands in the history as that layer's input
        below = () if i == 1 else (history.inputs[layer - 2],)
        return self.nodes[i - 1]((history.kept[layer - 2], history.kept[layer - 1], *below), flow)
