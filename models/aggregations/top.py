"""The plain stack's output."""

from __future__ import annotations

from torch import Tensor, nn

from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("top")
class Top(Aggregation):
    """h = x_{L+1}, through one more norm where the model is pre-norm."""

    top_alone = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        return self.norm(x_top)
