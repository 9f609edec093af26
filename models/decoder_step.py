"""A step of a standard decoder layer in one call of C. Layers with components of a variant run as their classes say."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor, nn

from models import native
from models.attention import MultiHeadAttention
from models.cross_attention.single import SingleCrossAttention
from models.layers.transformer import TransformerLayer
from models.lazy_map import AtFirstUse
from models.native.decoder import DecoderLayer, Scratch
from models.native.linear import Linear
from models.residuals.plain import Plain
from models.self_attention.single import SingleSelfAttention
from models.site import Flow, Memory
from models.sublayer import FeedForward, SubLayer


def stands_alone(module: nn.Module) -> bool:
    """Whether the layer is of these very classes: none of a variant, which might compute something else."""
    return (
        type(module) is TransformerLayer
        and type(module.self_attention) is SingleSelfAttention
        and type(module.cross_attention) is SingleCrossAttention
        and type(module.self_attention.attention) is type(module.cross_attention.attention) is MultiHeadAttention
        and type(module.feed_forward) is FeedForward
        and module.feed_forward.activation is nn.functional.relu
        and all(type(each.residual) is Plain for each in _sublayers(module))
    )


def _sublayers(layer: nn.Module) -> tuple[SubLayer, ...]:
    assert isinstance(layer, TransformerLayer)
    assert isinstance(layer.self_attention, SingleSelfAttention) and isinstance(layer.cross_attention, SingleCrossAttention)
    return layer.self_attention.sublayer, layer.cross_attention.sublayer, layer.sublayer


class DecoderStep:
    """`forward` of a layer that `stands_alone`: in C where it decodes step by step and its linear maps are there in C, else its own."""

    def __init__(self, layer: nn.Module, scratch: Scratch) -> None:
        assert isinstance(layer, TransformerLayer)
        assert isinstance(layer.self_attention, SingleSelfAttention) and isinstance(layer.cross_attention, SingleCrossAttention)
        self.layer, self.scratch = layer, scratch
        self.attention, self.over = layer.self_attention.attention, layer.cross_attention.attention
        self.sublayers = _sublayers(layer)

    @cached_property
    def made(self) -> DecoderLayer | None:
        """The layer in C, if all its linear maps are there."""
        feed_forward = self.layer.feed_forward
        lazy = [self.attention.joint, self.attention.output.forward, self.over.query.forward, self.over.output.forward]
        lazy += [feed_forward.rectified, feed_forward.outer.forward]
        maps = [one.made() for one in lazy if isinstance(one, AtFirstUse)]
        linear = [made for made in maps if isinstance(made, Linear)]
        if self.attention.d_head not in native.HEADS or len(linear) != len(lazy):
            return None
        norms = [sublayer.norm for sublayer in self.sublayers if isinstance(sublayer.norm, nn.LayerNorm)]
        return DecoderLayer(linear, norms, self.attention.num_heads, self.scratch, pre=self.layer.sublayer.pre)

    def __call__(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        cache = flow.cache
        if cache is None or flow.trace is not None or not native.runs_on(x) or self.made is None:
            return TransformerLayer.forward(self.layer, x, lower, context, memories, flow)
        keys, values, past, start = cache.room(flow.slot(self.attention), x)
        return self.made(x, past, start, (keys, values, *self.over.laid_out(memories[0], cache)))
