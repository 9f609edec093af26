"""A step of a decoder layer in one call.

Shapes: B sentences, N rows (hypotheses, sentence-major), T new positions, D = H K, S source positions.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models import native
from models.native.linear import Linear, LinearMap

_LONG, _POINTER = ctypes.c_int64, ctypes.c_void_p
_Memory = _POINTER * 6


class _Norm(ctypes.Structure):
    _fields_ = (("weight", _POINTER), ("bias", _POINTER), ("eps", ctypes.c_float))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, LinearMap) for name in ("joint", "self_output", "query", "cross_output", "inner", "outer")),
        *((name, _Norm) for name in ("self_norm", "cross_norm", "last_norm")),
        *((name, _LONG) for name in ("H", "K", "pre")),
    )


class _Step(ctypes.Structure):
    _fields_ = (*((name, _LONG) for name in ("B", "W", "T", "C", "P", "start", "S")), ("past", _POINTER))


class Scratch:
    """Memory that layers use one after the other; it grows to what the largest step needs."""

    def __init__(self) -> None:
        self._held = torch.empty(0)

    def of(self, size: int) -> Tensor:
        """At least so many numbers."""
        if self._held.shape[0] < size:
            self._held = torch.empty(size)
        return self._held


class DecoderLayer:
    """Self-attention, attention over the source and feed-forward with their residuals and norms.

    maps: x -> [q; k; v], self-attention's output, the query and the output of attention over the source, the two of the feed-forward;
    norms: of the three sub-layers, before them with `pre`, else behind them.
    """

    def __init__(self, maps: Sequence[Linear], norms: Sequence[nn.LayerNorm], heads: int, scratch: Scratch, *, pre: bool) -> None:
        self.maps, self.scratch = maps, scratch
        self.parameters = [(n.weight.detach(), n.bias.detach(), n.eps) for n in norms]
        width, self.widest = maps[1].outputs, max(maps[0].outputs, maps[4].outputs)
        described = [_Norm(weight.data_ptr(), bias.data_ptr(), eps) for weight, bias, eps in self.parameters]
        self._layer = _Layer(*(m.map for m in maps), *described, heads, width // heads, int(pre))
        self._rate = 1.0 / math.sqrt(width // heads)

    def __call__(self, x: Tensor, past: Tensor, start: int, memory: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """New positions x [N, T, D] -> (the layer's output, the output of attention over the source), [N, T, D] each.

        past, start: as of `native.attend_cells`; memory: keys and values there, and the tensors that `native.memory_layout` has made.
        """
        x, past = x.contiguous(), past.contiguous()
        (rows, length, width), (keys, _, source, *_) = x.shape, memory
        sentences, seen, positions = keys.shape[0], past.shape[1], source.shape[3]
        step = _Step(sentences, rows // sentences, length, keys.shape[-2], seen, start, positions, past.data_ptr())
        pointers = _Memory(*(t.data_ptr() for t in memory))
        threads, N = torch.get_num_threads(), rows * length
        attention = threads * max(seen + native.LANES, positions)
        buffer = self.scratch.of(N * (self.widest + 2 * width) + max(N * (self.widest + native.LANES), attention))
        attended, y = torch.empty_like(x), torch.empty_like(x)
        native.CALLS["decode_layer"](
            *(ctypes.addressof(self._layer), ctypes.addressof(pointers), ctypes.addressof(step)),
            *(x.data_ptr(), attended.data_ptr(), y.data_ptr(), buffer.data_ptr(), self._rate, threads),
        )
        return y, attended
