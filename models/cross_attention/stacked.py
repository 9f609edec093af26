"""Two memories, one after the other (Hao et al. 2019)."""

from __future__ import annotations

from torch import Tensor

from models.memory import Memory
from models.registry import CROSS_ATTENTIONS
from models.site import Flow
from models.two_memories import TwoMemories


@CROSS_ATTENTIONS.register("stacked")
class StackedCrossAttention(TwoMemories):
    """D = SubLayer(C, q -> MHA(q, H_e, H_e)); R = SubLayer(D, q -> MHA(q, H_r, H_r)) (Hao et al. 2019, section 3.3, stack)."""

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        attended = super().forward(x, memories, flow)
        return attended if self.extra_attention is None else self.extra(attended, memories[1], flow)
