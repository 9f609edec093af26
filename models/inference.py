"""Prepares a trained model's linear maps for decoding, inside a `with` block.

Every nn.Linear gets another forward: weights are packed once, q, k and v are one product, and the precision is the requested one.
Parameters and the state dict do not change. If a library function is missing (other device or build of torch), fp32 maps run unchanged.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.linear import NormedLinear
from models.native import DecoderLayers, Linear
from models.plain import FeedForward, PlainConnection, PlainResidual, SingleCrossAttention, SingleSelfAttention, Top, TransformerLayer
from models.precision import operand, rounds
from models.site import Flow, History, Memory
from models.stack import Stack
from models.transformer import Transformer

Precision = Literal["fp32", "bf16", "int8"]
Map = Callable[[Tensor], Tensor]
Make = Callable[[Sequence[nn.Linear], str], Map]
"""(linear maps of one input, activation after them: "relu" or "none") -> one map."""
EXACT = 2**24 // 127**2
"""Maximum number of products of 8-bit numbers whose fp32 sum is exact in any order."""


class PrecisionError(ValueError):
    """The requested precision is not available here. The message is one line."""


@contextmanager
def prepared(model: nn.Module, precision: Precision = "fp32") -> Iterator[None]:
    """Context in which `model` computes its linear maps in `precision`. For inference only: its parameters must not change meanwhile.
    Inside another context of the same precision it does nothing, so callers that decode many times pack once.

    fp32: the same products, summed in another order. bf16: inputs and weights are rounded to bfloat16; sums are fp32. int8: symmetric 8-bit
    weights per output row and inputs per position, with exact sums on every processor; the rest of the model stays fp32.
    PrecisionError: int8 on a device other than a CPU, or another context of another precision around this one."""
    make = find_maker(precision, next(model.parameters()).device)
    outer = model.__dict__.get("prepared_as")
    if outer not in (None, precision):
        raise PrecisionError(f"precision {precision}: found a model that is prepared for {outer}; expected {outer}")
    if outer is not None:
        yield
        return
    with ExitStack() as stack:
        _swap(stack, model, "prepared_as", precision)
        for module in model.modules():
            if isinstance(module, Transformer):
                _swap(stack, module, "packs_sources", True)
            elif make is None:
                if isinstance(module, NormedLinear):
                    _swap(stack, module, "forward", _folded(module))
            elif isinstance(module, nn.Linear):
                _swap(stack, module, "forward", _at_first_use(make, [module]))
            elif isinstance(module, MultiHeadAttention) and module.one_product:
                _swap(stack, module, "joint", _at_first_use(make, [module.query, module.key, module.value]))
            elif isinstance(module, FeedForward) and module.activation is nn.functional.relu:
                _swap(stack, module, "rectified", _at_first_use(make, [module.inner], "relu"))
            elif make in (_fp32, _int8) and _plain(module):
                _swap(stack, module, "forward", _in_one_call(make, module))
        yield


def find_maker(precision: Precision, device: torch.device) -> Make | None:
    """Returns a function that joins linear maps of one input into one map, with a ReLU if `after` is relu. None: maps stay unchanged.
    PrecisionError: int8 on a device other than a CPU."""
    onednn = device.type == "cpu" and torch.backends.mkldnn.is_available()
    if precision == "int8":
        if device.type != "cpu":
            raise PrecisionError(f"precision int8: found device {device.type}; expected a CPU, or precision fp32 or bf16")
        return _int8
    packed = onednn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if precision == "bf16":
        return _bf16_packed if packed and (rounds() or torch.ops.mkldnn._is_mkldnn_bf16_supported()) else _bf16
    return _fp32 if packed else None


def _at_first_use(make: Make, maps: Sequence[nn.Linear], after: str = "none") -> Map:
    """Returns a map that calls `make` at its first use: for some linear maps, only the joint map is ever used."""
    made = functools.cache(lambda: make(maps, after))
    return lambda x: made()(x)


def _plain(module: nn.Module) -> bool:
    """Returns whether a module is a decoder layer, or a decoder stack, with only the plain Transformer's parts. Variants may differ."""
    if isinstance(module, Stack):
        between = type(module.connection), type(module.aggregation), module.context, module.residual
        return between == (PlainConnection, Top, None, None) and module.block_layers == 0 and all(map(_plain, module.layers))
    if type(module) is not TransformerLayer or type(module.cross_attention) is not SingleCrossAttention:
        return False
    own, over, inner = module.self_attention, module.cross_attention, module.feed_forward
    return (
        type(own) is SingleSelfAttention
        and type(own.attention) is type(over.attention) is MultiHeadAttention
        and inner.activation is nn.functional.relu
        and all(type(s.residual) is PlainResidual and type(s.norm) is nn.LayerNorm for s in (own.sublayer, over.sublayer, module.sublayer))
    )


def _in_one_call(make: Make, module: Any) -> Callable[..., Any]:
    """Returns a `forward` for a `_plain` module. In step-by-step decoding it is one call of C, if C supports all linear maps."""
    layers: Any = module.layers if isinstance(module, Stack) else [module]
    attention = layers[0].self_attention.attention

    def parts(layer: Any) -> tuple[list[Any], list[Any]]:
        own, over, last = layer.self_attention, layer.cross_attention, layer.feed_forward
        a, b = own.attention, over.attention
        maps = [make(some, "none") for some in ([a.query, a.key, a.value], [a.output], [b.query], [b.output])]
        norms = [s.norm for s in (own.sublayer, over.sublayer, layer.sublayer)]
        return [*maps, make([last.inner], "relu"), make([last.outer], "none")], norms

    @functools.cache
    def made() -> DecoderLayers | None:
        found = [parts(layer) for layer in layers]
        in_c = all(isinstance(one, Linear) for maps, _ in found for one in maps)
        return DecoderLayers(found, attention.num_heads, layers[0].sublayer.pre) if in_c else None

    def step(x: Tensor, memories: Sequence[tuple[Memory, ...]], flow: Flow) -> tuple[Tensor, Tensor] | None:
        cache = flow.cache
        if cache is None or not attention.runs_in_c(x, flow) or (call := made()) is None:
            return None
        cells = [(1, x.shape[-1])] * 2
        attended = [
            (*cache.room(flow.slot(layer.self_attention.attention), x, *cells), *layer.cross_attention.attention.laid_out(memory, cache))
            for layer, (memory, *_) in zip(layers, memories, strict=True)
        ]
        return call(x, attended, *cache.step())

    def of_layer(x: Tensor, lower: Any, context: Any, memories: tuple[Memory, ...], flow: Flow) -> tuple[Tensor, Tensor | None]:
        return step(x, [memories], flow) or TransformerLayer.forward(module, x, lower, context, memories, flow)

    def of_stack(h_0: Tensor, flow: Flow, memories: list[tuple[Memory, ...]]) -> tuple[Tensor, History]:
        if (found := step(h_0, memories, flow)) is None:
            return Stack.forward(module, h_0, flow, memories)
        history = History(h_0)
        return module.aggregation(found[0], history, flow), history

    return of_stack if isinstance(module, Stack) else of_layer


def _joined(maps: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Returns the concatenated weights [M, D] and biases [M]."""
    biases = [m.bias for m in maps]
    bias = None if biases[0] is None else torch.cat([b.detach() for b in biases])
    return torch.cat([m.weight.detach() for m in maps]), bias


def _folded(module: NormedLinear) -> Map:
    weight, bias = _joined([module])
    return lambda x: nn.functional.linear(x, weight, bias)


def _fp32(maps: Sequence[nn.Linear], after: str) -> Map:
    return _packed(*_joined(maps), after)


def _packed(weight: Tensor, bias: Tensor | None, after: str) -> Map:
    if Linear.takes(weight):
        return Linear(weight, bias, after == "relu")
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    product = torch.ops.mkldnn._linear_pointwise.default
    return lambda x: product(x, packed, bias, after, [], "")


def _bf16(maps: Sequence[nn.Linear], after: str) -> Map:
    weight, bias = _joined(maps)
    weight, bias = weight.bfloat16(), None if bias is None else bias.bfloat16()
    if after == "relu":
        return lambda x: nn.functional.linear(x.bfloat16(), weight, bias).relu_().float()
    return lambda x: nn.functional.linear(x.bfloat16(), weight, bias).float()


def _bf16_packed(maps: Sequence[nn.Linear], after: str) -> Map:
    weight, bias = _joined(maps)
    weight, bias = operand(weight, torch.bfloat16), None if bias is None else operand(bias, torch.bfloat16)
    product, dtype = _packed(weight, bias, after), weight.dtype
    return lambda x: product(x.bfloat16().to(dtype)).bfloat16().float()


def _int8(maps: Sequence[nn.Linear], after: str) -> Map:
    """y = s_x s_w (Q_x Q_w) + b, Q = round(x / s), s = max |x| / 127."""
    weight, bias = _joined(maps)
    scale = weight.abs().amax(1).clamp_min(1e-30) / 127
    quantised = (weight / scale[:, None]).round().to(torch.int8)
    if Linear.takes(weight, bits=8):
        return Linear(quantised, bias, after == "relu", scale)
    parts = quantised.float().split(EXACT, dim=1)

    def apply(x: Tensor) -> Tensor:
        s = x.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127
        q = (x * s.reciprocal()).round().split(EXACT, dim=-1)
        total = torch.stack([nn.functional.linear(a, b) for a, b in zip(q, parts, strict=True)]).double().sum(0)
        y = total.float() * scale * s
        y = y if bias is None else y + bias
        return y.relu_() if after == "relu" else y

    return apply


def _swap(stack: ExitStack, module: nn.Module, name: str, value: Any) -> None:
    """Replaces an attribute of the module until the stack closes."""
    if name in module.__dict__:
        stack.callback(module.__dict__.__setitem__, name, module.__dict__[name])
    else:
        stack.callback(module.__dict__.pop, name)
    module.__dict__[name] = value
