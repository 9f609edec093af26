"""DenseAtt-1 of Shen et al. 2018: one attention over all encoder layers, mixed before it."""

from __future__ import annotations

from torch import Tensor

from models.bridges.multistep import MultistepBridge
from models.gradient_scale import scale_gradient
from models.linear import linear
from models.memory import Memory
from models.registry import BRIDGES
from models.site import Flow, History, Site


@BRIDGES.register("dense_attention_1")
class DenseAttention1(MultistepBridge):
    """K = L([h_i]), V = K + L_0(h_0), the same for every decoder layer (Shen et al. 2018, Eq. 9).

    L([h_i]) is the encoder's output, a linear map of its layers' concatenation where its connection is `concatenated`; the L of K and of V
    are one map. h_0: the embedded source, or the last summary layer's output where there is one.

    Args:
        scale_gradient: whether the gradient into the encoder's output is divided by twice the number of decoder layers, as in bridge
            multistep.
    """

    def __init__(self, site: Site, *, scale_gradient: bool = True) -> None:
        super().__init__(site, scale_gradient=scale_gradient)
        self.base = linear(site.config, site.d_model, site.d_model)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        keys = scale_gradient(encoded, self.factor)
        return [(flow.memory(keys, keys + self.base(self.base_state(history))),)] * self.num_layers
