"""The aggregation node of Dou et al. 2018, and iterative aggregation."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.dropout import Dropout
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site

Activation = Literal["sigmoid", "relu", "attention"]
Residual = Literal["all", "top", "none"]


class AggregationNode(nn.Module):
    """AGG(x_1..x_n) = LN(F([x_1;..;x_n]) + R), F(x) = W2 s(W1 x + b1) + b2 (Dou et al. 2018, Eq. 7 and Table 4).

    W1: 4d x nd, W2: d x 4d; the inner width is settled by the paper's parameter counts. s: sigmoid or relu. `attention`: F is one
    multi-head self-attention over the positions of [x_1;..;x_n], Q, K, V: nd -> d, with a cache slot of its own.
    R: `all` x_1 + .. + x_n, `top` the highest backbone state (x_`top`, from 0), `none` 0. `dropout` acts on F's output.
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

    @staticmethod
    def check(dropout: float) -> str | None:
        return None if 0.0 <= dropout < 1.0 else f"dropout is {dropout}; expected at least 0 and below 1"

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
        if self.residual == "top":
            return inputs[self.top]
        total = inputs[0]
        for x in inputs[1:]:
            total = total + x
        return total


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
