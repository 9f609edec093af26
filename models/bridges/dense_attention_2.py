"""DenseAtt-2 of Shen et al. 2018: an attention over each encoder layer, summed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.bridges.multistep import MultistepBridge
from models.gradient_scale import scale_gradient
from models.linear import linear
from models.memory import Memory
from models.registry import BRIDGES
from models.site import Flow, History, Site
from models.widths import last_base, output_widths


@BRIDGES.register("dense_attention_2")
class DenseAttention2(MultistepBridge):
    """K_i = L_i(h_i), V_i = K_i + L'(h_0) for each layer i of the encoder's last group; a = sum_i softmax(q K_i^T) V_i (Shen et al. 2018,
    Eq. 10).

    h_0: the embedded source, or the last summary layer's output where there is one. A layer's memory is one, keys and values [B, I, S, D].
    The encoder's own output is not read.

    Args:
        include_h0: whether h_0 is a term of the sum itself (i = 0).
        scale_gradient: whether the gradient into the encoder's layers is divided by twice the number of decoder layers, as in bridge
            multistep.
    """

    needs_output = False

    def __init__(self, site: Site, *, include_h0: bool = True, scale_gradient: bool = True) -> None:
        super().__init__(site, scale_gradient=scale_gradient)
        config, d = site.config, site.d_model
        widths = [d, *output_widths(config.encoder, d)[last_base(config.encoder) :]]
        self.first = 0 if include_h0 else 1
        self.keys = nn.ModuleList(linear(config, width, d) for width in widths[self.first :])
        self.base = linear(config, d, d)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        states = zip(self.keys, history.group[self.first :], strict=True)
        keys_BISD = scale_gradient(torch.stack([key(h) for key, h in states], dim=1), self.factor)
        values_BISD = keys_BISD + self.base(self.base_state(history))[:, None]
        return [(flow.memory(keys_BISD, values_BISD),)] * self.num_layers
