"""Keys and values of ConvS2S."""

from __future__ import annotations

import math

from torch import Tensor

from models.gradient_scale import scale_gradient
from models.memory import Memory
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Site


@BRIDGES.register("multistep")
class MultistepBridge(Bridge):
    """K = h_enc, V = (K + h_0) sqrt(1/2), the same for every decoder layer (Gehring et al. 2017, section 3.3).

    h_enc, h_0: the encoder's output and its embedded words.

    Args:
        scale_gradient: whether the gradient into h_enc is divided by twice the number of decoder layers that attend (section 3.4); that
            into h_0 is not.
    """

    packable = False
    any_width = True
    mapped = True
    reads_layers = True

    def __init__(self, site: Site, *, scale_gradient: bool = True) -> None:
        super().__init__(site)
        self.factor = 1.0 / (2.0 * site.num_layers) if scale_gradient else 1.0

    def base_state(self, history: History) -> Tensor:
        """h_0, or the last summary layer's output, which is a state of the encoder: the gradient into it is scaled like the others'."""
        base = history.group[0]
        return base if base is history.outputs[0] else scale_gradient(base, self.factor)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        keys = scale_gradient(encoded, self.factor)
        values = (keys + history.outputs[0]) * math.sqrt(0.5)
        return [(flow.memory(keys, values),)] * self.num_layers
