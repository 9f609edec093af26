"""Every decoder layer attends to the encoder's output."""

from __future__ import annotations

from torch import Tensor

from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Memory


@BRIDGES.register("top")
class TopBridge(Bridge):
    """memories_l = (h_enc,) for every decoder layer l (Vaswani et al. 2017)."""

    any_width = True

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        return [(flow.memory(encoded),)] * self.num_layers
