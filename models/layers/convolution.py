"""The convolutional layer, encoder and decoder side."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from models.config import options
from models.glu_conv import GluConv
from models.linear import linear
from models.memory import Memory
from models.registry import CROSS_ATTENTIONS, LAYERS
from models.seams import CrossAttention, Layer
from models.site import Flow, Site
from models.widths import list_fault, per_layer


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
