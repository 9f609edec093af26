"""Iterative aggregation, Dou et al. 2018."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from models.node import Activation, AggregationNode, Residual
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("iterative")
class Iterative(Aggregation):
    """G^1 = H^1; G^l = AGG(H^l, G^{l-1}) for l = 2..L; output G^L (Dou et al. 2018, section 3.1.3, Eq. 6). The nodes do not feed back.

    AGG(x) = LN(F(x) + R), F(x) = W2 s(W1 x + b1) + b2.

    Args:
        activation: s of a node's network F: sigmoid or relu; attention: F is one self-attention over the positions.
        residual: R of a node: all: the sum of its inputs; top: H^l; none: 0.
        dropout: probability of dropout of F's output.
    """

    reads_top = False

    def __init__(self, site: Site, *, activation: Activation = "sigmoid", residual: Residual = "all", dropout: float = 0.0) -> None:
        super().__init__(site)
        self.nodes = nn.ModuleList(
            AggregationNode(site, 2, activation=activation, residual=residual, dropout=dropout) for _ in range(site.num_layers - 1)
        )

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["num_layers"] < 2:
            return "iterative needs at least 2 layers; num_layers is 1"
        return AggregationNode.check(options.get("dropout", 0.0))

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        node = history.kept[1]
        for h, aggregate in zip(history.kept[2:], self.nodes, strict=True):
            node = aggregate((h, node), flow)
        return node
