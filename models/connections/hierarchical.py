"""Hierarchical aggregation of Dou et al. 2018 as a connection: its nodes feed the next layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from models.node import Activation, AggregationNode, Residual
from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site


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
