"""Keys and values of ConvS2S (Gehring et al. 2017) and DenseNMT (Shen et al. 2018)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from models.linear import last_base, linear, output_widths
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Memory, Site


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x; its gradient is multiplied by `factor` on the way back."""
    return _Scale.apply(x, factor)


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
