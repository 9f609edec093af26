"""Two memories side by side, joined by a gate (Hao et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.memory import Memory
from models.registry import CROSS_ATTENTIONS
from models.site import Flow, Site
from models.two_memories import TwoMemories


@CROSS_ATTENTIONS.register("gated_sum")
class GatedSumCrossAttention(TwoMemories):
    """D = SubLayer(C, q -> MHA(q, H_e, H_e)); R = SubLayer(C, q -> MHA(q, H_r, H_r)); l = s(W [D; R] + b); l * D + (1 - l) * R

    (Hao et al. 2019, section 3.3, gated sum).
    """

    reads_stream = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.gate = None if self.extra_attention is None else nn.Linear(2 * site.d_model, site.d_model)

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        attended = super().forward(x, memories, flow)
        if self.gate is None:
            return attended
        recurrent = self.extra(x, memories[1], flow)
        share = torch.sigmoid(self.gate(torch.cat((attended, recurrent), dim=-1)))
        return share * attended + (1.0 - share) * recurrent
