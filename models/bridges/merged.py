"""Encoder stack and extra encoder merged, position by position."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.memory import Memory
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Site


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
