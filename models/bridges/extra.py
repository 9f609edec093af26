"""Decoder layers attend to the extra encoder's memory as well, beside the encoder's or merged with it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Memory, Site


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


@BRIDGES.register("merged")
class MergedBridge(Bridge):
    """memories_l = (LN(W [LN(H_e); LN(H_r)]),) for every decoder layer l (Chen et al. 2018, multi-column encoder; W is d x (d + d_r)).

    H_r has a state for each source position.
    """

    any_width = True
    reads_extra = True
    needs_aligned = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        if site.extra_width is None:
            raise ValueError("bridge merged needs an extra_encoder")
        self.encoder_norm, self.extra_norm = site.layer_norm(), site.layer_norm(site.extra_width)
        self.merge = nn.Linear(site.d_model + site.extra_width, site.d_model, bias=False)
        self.norm = site.layer_norm()

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        assert extra is not None
        recurrent = extra.keys if extra.packing is None else extra.packing.unpack(extra.keys)
        recurrent = recurrent if flow.packing is None else flow.packing.pack(recurrent)
        merged = self.norm(self.merge(torch.cat((self.encoder_norm(encoded), self.extra_norm(recurrent)), dim=-1)))
        return [(flow.memory(merged),)] * self.num_layers
