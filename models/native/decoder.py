"""Steps of decoder layers, one or several behind each other, in one call.

Shapes: L layers, B sentences, N rows (hypotheses, sentence-major), T new positions, D = H K, S source positions.
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

    def __init__(self, maps: Sequence[Linear], norms: Sequence[nn.LayerNorm], heads: int, *, pre: bool) -> None:
        self.maps = maps
        self.parameters = [(n.weight.detach(), n.bias.detach(), n.eps) for n in norms]
        self.width, self.widest = maps[1].outputs, max(maps[0].outputs, maps[4].outputs)
        self.d_head = self.width // heads
        described = [_Norm(weight.data_ptr(), bias.data_ptr(), eps) for weight, bias, eps in self.parameters]
        self.layer = _Layer(*(m.map for m in maps), *described, heads, self.d_head, int(pre))


class DecoderLayers:
    """Layers of one width, each reading the output of the one before."""

    def __init__(self, layers: Sequence[DecoderLayer], scratch: Scratch) -> None:
        self.layers, self.scratch = layers, scratch
        self._layers = (_Layer * len(layers))(*(each.layer for each in layers))
        self._memories = _POINTER * (6 * len(layers))
        self._rate = 1.0 / math.sqrt(layers[0].d_head)

    def __call__(self, x: Tensor, past: Tensor, start: int, memories: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor]:
        """New positions x [N, T, D] -> (the layers' outputs, what attention over the source made of each one's input), [L, N, T, D] each.

        past, start: as of `native.attend_cells`; memories: each layer's keys and values there, and what `native.memory_layout` has made.
        """
        x, past = x.contiguous(), past.contiguous()
        (rows, length, width), (keys, _, source, *_) = x.shape, memories[0]
        sentences, seen, positions = keys.shape[0], past.shape[1], source.shape[3]
        step = _Step(sentences, rows // sentences, length, keys.shape[-2], seen, start, positions, past.data_ptr())
        pointers = self._memories(*(t.data_ptr() for memory in memories for t in memory))
        threads, N, widest = torch.get_num_threads(), rows * length, max(each.widest for each in self.layers)
        attention = threads * max(seen + native.LANES, positions)
        buffer = self.scratch.of(N * (widest + 2 * width) + max(N * (widest + native.LANES), attention))
        attended, y = x.new_empty(len(self.layers), rows, length, width), x.new_empty(len(self.layers), rows, length, width)
        native.CALLS["decode_layers"](
            *(ctypes.addressof(self._layers), ctypes.addressof(pointers), ctypes.addressof(step), len(self.layers)),
            *(x.data_ptr(), attended.data_ptr(), y.data_ptr(), buffer.data_ptr(), self._rate, threads),
        )
        return y, attended
