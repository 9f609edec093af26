"""Convolutional layers, their attention and their bridges: ConvS2S (Gehring et al. 2017) and DenseNMT (Shen et al. 2018).

Shapes: B or N rows, T positions, C input width, D output width, k kernel.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import options
from models.dropout import Dropout
from models.linear import last_base, linear, list_fault, output_widths, per_layer
from models.registry import BRIDGES, CROSS_ATTENTIONS, LAYERS
from models.seams import Bridge, CrossAttention, Layer
from models.site import Flow, History, Memory, Site


class GluConv(nn.Module):
    """y_t = GLU(W [drop(x)_{t-r}; ..; drop(x)_{t+r}] + b), GLU([u; v]) = u * s(v) (Gehring et al. 2017; Shen et al. 2018, Eq. 5).

    W is [2D, k C], the earliest position first. In an encoder, x is 0 outside the sentence and at padding. In a decoder the window ends
    at t, x is 0 before the sentence, and the cache keeps the last k - 1 inputs.
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
        """Returns the inputs of each window: [B, T, k C]."""
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

    dropout.residual applies to x. The model's d_ff, num_heads, dropout.attention, dropout.ffn and the side's self_attention have no effect.

    Args:
        widths: width of z: one number, or a list with one number per layer.
        kernels: k, number of positions that a convolution reads: one number, or a list with one number per layer; odd in an encoder.
        residual: true: h = ((a + z) sqrt(1/2) + P x) sqrt(1/2), without a in the encoder (ConvS2S, Gehring et al. 2017). P is a linear map
            if the widths of x and z differ, else the identity. false: h = z (DenseNMT, Shen et al. 2018, Eq. 6-7); connections read a."""

    packable = False
    any_width = True
    adds_attended = True
    self_attends = False
    norm_orders = ("post",)  # convolutional models have no norms

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
        for name in ("widths", "kernels"):
            fault = list_fault(name, options.get(name, 3), site["num_layers"])
            if fault is not None:
                return fault
        even = [k for k in per_layer(options.get("kernels", 3), site["num_layers"]) if k % 2 == 0]
        if even and site["side"] == "encoder":
            return f"kernels has {even[0]}; expected odd numbers"
        return super().check(site, **options)

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


@CROSS_ATTENTIONS.register("multistep")
class MultistepAttention(CrossAttention):
    """q = (W_in z + h_0) sqrt(1/2); a = W_out sum over memories of softmax(q K^T) V sqrt(J) (Gehring et al. 2017, section 3.3; summed over
    encoder layers Shen et al. 2018, Eq. 10).

    h_0 [B, T, D]: the embedded target words (in DenseNMT too: assumed). J: the sentence's source length without padding. z and a have the
    layer's width. Keys and values are the memory's states, of width D, without maps."""

    packable = False
    bare = True
    max_memories = 1000

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.query = linear(site.config, site.width, site.d_model)
        self.output = linear(site.config, site.d_model, site.width)

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        assert flow.h_0 is not None
        q = (self.query(x) + flow.h_0) * math.sqrt(0.5)
        # the hypotheses of a sentence become queries of one row, so its keys are never copied
        grouped = q.reshape(memories[0].keys.shape[0], -1, q.shape[-1])
        a = self._attend(grouped, memories[0], flow)
        for memory in memories[1:]:
            a = a + self._attend(grouped, memory, flow)
        return self.output((a * self._root_length(memories[0], flow)).view(q.shape))

    def _attend(self, q_BTD: Tensor, memory: Memory, flow: Flow) -> Tensor:
        """softmax(q K^T) V, summed over the memory's states I: keys [B, S, D] or [B, I, S, D]."""
        values = memory.keys if memory.values is None else memory.values
        keys_BND, values_BND = (t if t.dim() == 3 else t.flatten(1, 2) for t in (memory.keys, values))
        length = memory.mask.shape[1]
        scores = torch.bmm(q_BTD, keys_BND.transpose(1, 2)).unflatten(2, (-1, length))
        weights_BTIS = (scores + memory.bias).softmax(dim=-1)
        if flow.trace is not None:
            flow.trace.append((self, weights_BTIS.transpose(1, 2)))
        return torch.bmm(weights_BTIS.flatten(2).to(values.dtype), values_BND)

    def _root_length(self, memory: Memory, flow: Flow) -> Tensor:
        def make() -> tuple[Tensor]:
            return (memory.mask.sum(1).to(memory.keys.dtype).sqrt()[:, None, None],)

        return (make() if flow.cache is None else flow.cache.once(self, make))[0]


@BRIDGES.register("multistep")
class MultistepBridge(Bridge):
    """K = h_enc, V = (K + h_0) sqrt(1/2), the same for every decoder layer (Gehring et al. 2017, section 3.3).

    h_enc, h_0: the encoder's output and the embedded source words. The gradient into the encoder's states is divided by twice the number of
    decoder layers (section 3.4; in DenseNMT too: assumed). The gradient into h_0 is not divided."""

    packable = False
    any_width = True
    mapped = True
    reads_layers = True

    def scaled(self, x: Tensor) -> Tensor:
        """Returns x. The backward pass divides its gradient."""
        x = x.view_as(x)
        if x.requires_grad:
            x.register_hook(lambda grad: grad * (1.0 / (2.0 * self.num_layers)))
        return x

    def base_state(self, history: History) -> Tensor:
        """Returns h_0, or the last summary layer's output. That output is an encoder state, so its gradient is scaled too."""
        base = history.group[0]
        return base if base is history.outputs[0] else self.scaled(base)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        keys = self.scaled(encoded)
        values = (keys + history.outputs[0]) * math.sqrt(0.5)
        return [(flow.memory(keys, values),)] * self.num_layers


@BRIDGES.register("dense_attention_1")
class DenseAttention1(MultistepBridge):
    """K = L([h_i]), V = K + L_0(h_0), the same for every decoder layer (Shen et al. 2018, Eq. 9).

    L([h_i]) is the encoder's output. With connection `concatenated` it is a linear map of the layers' concatenation. K and V share this L.
    h_0: the embedded source, or the last summary layer's output if there is one.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.base = linear(site.config, site.d_model, site.d_model)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        keys = self.scaled(encoded)
        return [(flow.memory(keys, keys + self.base(self.base_state(history))),)] * self.num_layers


@BRIDGES.register("dense_attention_2")
class DenseAttention2(MultistepBridge):
    """K_i = L_i(h_i), V_i = K_i + L'(h_0) for layer i of the last encoder group; a = sum_i softmax(q K_i^T) V_i (Shen et al. 2018, Eq. 10).

    h_0: the embedded source, or the last summary layer's output if there is one. It is also a term of the sum, i = 0 (assumed). Each
    decoder layer has one memory, with keys and values [B, I, S, D]. The bridge does not read the encoder's output."""

    needs_output = False

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        config, d = site.config, site.d_model
        widths = [d, *output_widths(config.encoder, d)[last_base(config.encoder) :]]
        self.keys = nn.ModuleList(linear(config, width, d) for width in widths)
        self.base = linear(config, d, d)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        states = zip(self.keys, history.group, strict=True)
        keys_BISD = self.scaled(torch.stack([key(h) for key, h in states], dim=1))
        values_BISD = keys_BISD + self.base(self.base_state(history))[:, None]
        return [(flow.memory(keys_BISD, values_BISD),)] * self.num_layers
