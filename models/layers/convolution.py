"""The convolutional layer, encoder and decoder side.

Shapes: B or N rows, T positions, C input width, D output width, k kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import options
from models.dropout import Dropout
from models.linear import linear, list_fault, per_layer
from models.registry import CROSS_ATTENTIONS, LAYERS
from models.seams import CrossAttention, Layer
from models.site import Flow, Memory, Site


class GluConv(nn.Module):
    """y_t = GLU(W [drop(x)_{t-r}; ..; drop(x)_{t+r}] + b), GLU([u; v]) = u * s(v) (Gehring et al. 2017; Shen et al. 2018, Eq. 5).

    W is [2D, k C], the earliest position first. Outside the sentence, x is 0: on both sides and at padding in an encoder; in a decoder the
    window ends at t, and a cache keeps its last k - 1 inputs.
    """

    def __init__(self, site: Site, d_in: int, d_out: int, kernel: int) -> None:
        super().__init__()
        p = site.config.dropout.residual
        self.kernel, self.causal = kernel, site.side == "decoder"
        self.dropout = Dropout(p)
        self.map = linear(site.config, kernel * d_in, 2 * d_out, dropped=p, gated=True)

    def forward(self, x_BTC: Tensor, flow: Flow) -> Tensor:
        return F.glu(self.map(self._windows(self.dropout(x_BTC), flow)), dim=-1)

    def _windows(self, x_BTC: Tensor, flow: Flow) -> Tensor:
        """[B, T, k C]"""
        k, length = self.kernel, x_BTC.shape[1]
        if k == 1:
            return x_BTC
        if not self.causal:
            assert flow.mask is not None
            x_BTC = F.pad(x_BTC * flow.mask[:, :, None].to(x_BTC.dtype), (0, 0, k // 2, k // 2))
        elif flow.cache is None:
            x_BTC = F.pad(x_BTC, (0, 0, k - 1, 0))
        else:
            x_BTC = flow.cache.recent(self, x_BTC, k - 1)
        if length == 1:
            return x_BTC.flatten(1)[:, None]
        return torch.cat([x_BTC[:, i : i + length] for i in range(k)], dim=-1)


@LAYERS.register("convolution")
class ConvolutionLayer(Layer):
    """z = GLU(conv_k(drop(x))); in the decoder a = CrossAttention(z, memories).

    Dropout of x is dropout.residual. A model's d_ff, num_heads and dropout of attention and ffn do nothing here, nor does a side's
    self_attention.

    Args:
        widths: width of z: one number, or a list with one for each layer.
        kernels: k, positions that a convolution sees: one number, or a list with one for each layer; odd in an encoder.
        residual: true: h = ((a + z) sqrt(1/2) + P x) sqrt(1/2), without a in the encoder (ConvS2S, Gehring et al. 2017); P is a linear map
            where x and z differ in width, else nothing. false: h = z (DenseNMT, Shen et al. 2018, Eq. 6-7), and the connection passes a on.
    """

    packable = False
    any_width = True
    adds_attended = True
    self_attends = False

    def __init__(self, site: Site, *, widths: int | list[int], kernels: int | list[int] = 3, residual: bool = True) -> None:
        super().__init__(site)
        stack = site.stack
        width, kernel = (per_layer(value, site.num_layers)[site.layer - 1] for value in (widths, kernels))
        self.residual = residual
        self.convolution = GluConv(site, site.width, width, kernel)
        self.project = linear(site.config, site.width, width) if residual and site.width != width else nn.Identity()
        self.cross_attention: CrossAttention | None = None
        if stack.cross_attention is not None and site.memory_dims:
            make = CROSS_ATTENTIONS.get(stack.cross_attention["kind"])
            self.cross_attention = make(replace(site, input_width=width), **options(stack.cross_attention))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["norm"] != "post":
            return f"found norm {site['norm']}; expected post: a convolution has no norms"
        for name in ("widths", "kernels"):
            fault = list_fault(name, options.get(name, 3), site["num_layers"])
            if fault is not None:
                return fault
        even = [k for k in per_layer(options.get("kernels", 3), site["num_layers"]) if k % 2 == 0]
        return f"kernels has {even[0]}; expected odd numbers" if even and site["side"] == "encoder" else None

    def forward(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        z, attended = self.convolution(x, flow), None
        if self.cross_attention is not None:
            attended = self.cross_attention(z, memories, flow)
        if not self.residual:
            return z, attended
        if attended is not None:
            z = (attended + z) * math.sqrt(0.5)
        return (z + self.project(x)) * math.sqrt(0.5), attended
