"""The plain stack."""

from __future__ import annotations

from torch import Tensor

from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History


@CONNECTIONS.register("residual")
class Residual(Connection):
    """x_{l+1} = h_l: each layer reads the one below (its residual is inside the layer)."""

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        return history.kept[layer - 1]
