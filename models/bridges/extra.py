"""Some decoder layers attend to the extra encoder's memory as well."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from models.memory import Memory
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Site


@BRIDGES.register("extra")
class ExtraBridge(Bridge):
    """memories_l = (H_e, H_r) for some decoder layers, (H_e,) for the others (Hao et al. 2019, section 3.3); H_r is the extra encoder's
    output.

    Args:
        where: the decoder layers that attend to both memories: the top one, or all.
    """

    any_width = True
    reads_extra = True
    num_memories = 2

    def __init__(self, site: Site, *, where: Literal["top", "all"] = "top") -> None:
        super().__init__(site)
        if site.extra_width is None:
            raise ValueError("bridge extra needs an extra_encoder")
        self.where, self.widths = where, (site.d_model, site.extra_width)

    def memory_dims(self, layer: int) -> tuple[int, ...]:
        return self.widths if self.where == "all" or layer == self.num_layers else self.widths[:1]

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        assert extra is not None
        memories = (flow.memory(encoded), extra)
        return [memories[: len(self.memory_dims(layer))] for layer in range(1, self.num_layers + 1)]
