"""Every decoder layer attends to the encoder's output."""

from __future__ import annotations

from torch import Tensor

from models.memory import Memory
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Site


@BRIDGES.register("top")
class TopBridge(Bridge):
    """memories_l = (h_enc,) for every decoder layer l (Vaswani et al. 2017)."""

    any_width = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.num_layers, self.width = site.num_layers, site.d_model

    def memory_dims(self, layer: int) -> tuple[int, ...]:
        return (self.width,)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        assert flow.mask is not None and flow.bias is not None
        memory = Memory(encoded, flow.mask, flow.bias, packing=flow.packing)
        return [(memory,)] * self.num_layers
