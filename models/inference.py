"""A trained model's linear maps, made ready for decoding, for the time of a `with`.

Every nn.Linear gets another forward: weights packed once, q, k and v in one product, and the precision asked for. Parameters and the state
dict stay what they were. Where a library function is absent (another device, another build of torch), fp32 stays as it is.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.linear import NormedLinear
from models.native import Linear
from models.plain import FeedForward
from models.precision import operand, rounds
from models.transformer import Transformer

Precision = Literal["fp32", "bf16", "int8"]
Map = Callable[[Tensor], Tensor]
Make = Callable[[Sequence[nn.Linear], str], Map]
"""(linear maps of one input, "relu" or "none" behind them) -> one map."""
EXACT = 2**24 // 127**2
"""So many products of 8-bit numbers have an exact sum in fp32, in any order."""


class PrecisionError(ValueError):
    """The precision asked for cannot be had here; one line."""


@contextmanager
def prepared(model: nn.Module, precision: Precision = "fp32") -> Iterator[None]:
    """Within, `model` computes its linear maps in `precision`: for inference alone, its parameters are not to change meanwhile. Inside
    another of the same precision it does nothing: whoever decodes many times packs once.

    fp32: the same products, summed in another order. bf16: inputs and weights rounded to bfloat16, sums in fp32. int8: weights by output
    row, inputs by position (symmetric, 8 bits), sums exact on every processor; the rest of the model stays fp32. PrecisionError: int8
    elsewhere than on a CPU.
    """
    make = _maker(precision, next(model.parameters()).device)
    if model.__dict__.get("prepared_as") == precision:
        yield
        return
    with ExitStack() as stack:
        _swap(stack, model, "prepared_as", precision)
        if make is None:
            for module in model.modules():
                if isinstance(module, NormedLinear):
                    _swap(stack, module, "forward", _folded(module))
        else:
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    _swap(stack, module, "forward", _at_first_use(make, [module]))
                elif isinstance(module, MultiHeadAttention) and module.one_product:
                    _swap(stack, module, "joint", _at_first_use(make, [module.query, module.key, module.value]))
                elif isinstance(module, FeedForward) and module.activation is nn.functional.relu:
                    _swap(stack, module, "rectified", _at_first_use(make, [module.inner], "relu"))
        for module in model.modules():
            if isinstance(module, Transformer):
                _swap(stack, module, "packs_sources", True)
        yield


def check_precision(precision: Precision, device: torch.device) -> None:
    """PrecisionError where `prepared` would raise it."""
    _maker(precision, device)


def _maker(precision: Precision, device: torch.device) -> Make | None:
    """What turns linear maps of one input into one function, with a ReLU behind it where `after` says relu; None: leave them alone."""
    onednn = device.type == "cpu" and torch.backends.mkldnn.is_available()
    if precision == "int8":
        if device.type != "cpu":
            raise PrecisionError(f"precision int8: found device {device.type}; expected a CPU, or precision fp32 or bf16")
        return _int8
    packed = onednn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if precision == "bf16":
        if packed and rounds():
            return _bf16_rounded
        return _bf16_packed if packed and torch.ops.mkldnn._is_mkldnn_bf16_supported() else _bf16
    return _fp32 if packed else None


def _at_first_use(make: Make, maps: Sequence[nn.Linear], after: str = "none") -> Map:
    """The map that `make` makes, made when it is called: of some linear maps only a joint one is ever used."""
    made = functools.cache(lambda: make(maps, after))
    return lambda x: made()(x)


def _joined(maps: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Weights [M, D] and biases [M] one below the other."""
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


def _bf16_rounded(maps: Sequence[nn.Linear], after: str) -> Map:
    weight, bias = _joined(maps)
    product = _packed(operand(weight, torch.bfloat16), None if bias is None else operand(bias, torch.bfloat16), after)
    return lambda x: product(operand(x, torch.bfloat16)).bfloat16().float()


def _bf16_packed(maps: Sequence[nn.Linear], after: str) -> Map:
    weight, bias = _joined(maps)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16())
    bias = None if bias is None else bias.bfloat16()
    product = torch.ops.mkldnn._linear_pointwise.default
    return lambda x: product(x.bfloat16(), packed, bias, after, [], "").float()


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
    """Shadow an attribute of the class, or the object's own, for the time of the stack."""
    if name in module.__dict__:
        stack.callback(module.__dict__.__setitem__, name, module.__dict__[name])
    else:
        stack.callback(module.__dict__.pop, name)
    module.__dict__[name] = value
