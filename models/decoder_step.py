"""Steps of standard decoder layers in one call, where its components are those of Vaswani et al. 2017; others run as their classes say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from torch import Tensor, nn

from models import native
from models.attention import MultiHeadAttention
from models.connections.residual import Residual
from models.cross_attention.single import SingleCrossAttention
from models.feed_forward import FeedForward
from models.layers.transformer import TransformerLayer
from models.lazy_map import AtFirstUse
from models.memory import Memory
from models.native.decoder import DecoderLayer, DecoderLayers, Scratch
from models.native.linear import Linear
from models.residuals.plain import Plain
from models.self_attention.single import SingleSelfAttention
from models.site import Flow, History
from models.stack import Stack
from models.sublayer import SubLayer


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


def chains(module: nn.Module) -> bool:
    """Whether the module is a stack of such layers, each of which reads the output of the one below and nothing else."""
    return (
        type(module) is Stack
        and all(stands_alone(layer) for layer in module.layers)
        and type(module.connection) is Residual
        and module.residual is None
        and module.context is None
        and not module.block_layers
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
        self.alone: DecoderLayers | None = None

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
        return DecoderLayer(linear, norms, self.attention.num_heads, pre=self.layer.sublayer.pre)

    def __call__(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        if not _in_c(x, flow) or self.made is None:
            return TransformerLayer.forward(self.layer, x, lower, context, memories, flow)
        if self.alone is None:
            self.alone = DecoderLayers([self.made], self.scratch)
        y, attended = _step(self.alone, [self], x, [memories], flow)
        return y[0], attended[0]


class StackStep:
    """`forward` of a stack that `chains`: all its layers in one call, where each alone would run in C."""

    def __init__(self, stack: nn.Module, scratch: Scratch) -> None:
        assert isinstance(stack, Stack)
        self.stack, self.scratch = stack, scratch

    @cached_property
    def layers(self) -> list[DecoderStep]:
        return [step for layer in self.stack.layers if isinstance(step := layer.__dict__["forward"], DecoderStep)]

    @cached_property
    def made(self) -> DecoderLayers | None:
        found = [step.made for step in self.layers if step.made is not None]
        return DecoderLayers(found, self.scratch) if len(found) == len(self.stack.layers) else None

    def __call__(self, h_0: Tensor, flow: Flow, memories: list[tuple[Memory, ...]] | None = None) -> tuple[Tensor, History]:
        if memories is None or not _in_c(h_0, flow) or self.made is None:
            return Stack.forward(self.stack, h_0, flow, memories)
        outputs, attended = (list(t.unbind()) for t in _step(self.made, self.layers, h_0, memories, flow))
        history = History(h_0)
        history.inputs += [h_0, *outputs[:-1]]
        history.outputs += outputs
        history.kept += outputs
        history.attended += attended
        aggregation = self.stack.aggregation
        return outputs[-1] if aggregation is None else aggregation(outputs[-1], history, flow), history


def _in_c(x: Tensor, flow: Flow) -> bool:
    return flow.cache is not None and flow.trace is None and native.runs_on(x)


def _step(
    made: DecoderLayers, layers: Sequence[DecoderStep], x: Tensor, memories: Sequence[tuple[Memory, ...]], flow: Flow
) -> tuple[Tensor, Tensor]:
    """The layers' outputs and what they attended to, [L, N, T, D] each."""
    cache = flow.cache
    assert cache is not None
    tensors = []
    for layer, (memory, *_) in zip(layers, memories, strict=True):
        keys, values, past, start = cache.room(flow.slot(layer.attention), x)
        tensors.append((keys, values, *layer.over.laid_out(memory, cache)))
    return made(x, past, start, tensors)
