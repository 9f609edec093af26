"""A decoder layer's step in one call.

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


class _Norm(ctypes.Structure):
    _fields_ = (("weight", _POINTER), ("bias", _POINTER), ("eps", ctypes.c_float))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, LinearMap) for name in ("joint", "self_output", "query", "cross_output", "inner", "outer")),
        *((name, _Norm) for name in ("self_norm", "cross_norm", "last_norm")),
        *((name, _LONG) for name in ("H", "K", "pre")),
    )


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, _LONG) for name in ("B", "W", "T", "C", "P", "start", "S")),
        *((name, _POINTER) for name in ("keys", "values", "past")),
        *((name, _POINTER) for name in ("source_keys", "source_values", "source_bias", "source_lengths")),
    )


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

    def __init__(self, maps: Sequence[Linear], norms: Sequence[nn.LayerNorm], heads: int, *, pre: bool, scratch: Scratch) -> None:
        self.maps, self.scratch = maps, scratch
        self.parameters = [(n.weight.detach(), n.bias.detach(), n.eps) for n in norms]
        self.width, self.widest = maps[1].outputs, max(maps[0].outputs, maps[4].outputs)
        d_head = self.width // heads
        described = [_Norm(weight.data_ptr(), bias.data_ptr(), eps) for weight, bias, eps in self.parameters]
        self.layer = _Layer(*(m.map for m in maps), *described, heads, d_head, int(pre))
        self.rate = 1.0 / math.sqrt(d_head)

    def __call__(
        self, x: Tensor, keys: Tensor, values: Tensor, past: Tensor, start: int, source: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        """New positions x [N, T, D] -> (the layer's output, what attention over the source made of x), both [N, T, D].

        keys, values, past, start: as of `native.attend_cells`; source: what `native.memory_layout` has made.
        """
        x, past = x.contiguous(), past.contiguous()
        rows, length, _ = x.shape
        sentences, seen, positions = keys.shape[0], past.shape[1], source[0].shape[3]
        step = _Step(
            *(sentences, rows // sentences, length, keys.shape[-2], seen, start, positions),
            *(t.data_ptr() for t in (keys, values, past, *source)),
        )
        threads, N = torch.get_num_threads(), rows * length
        attention = threads * max(seen + native.LANES, positions)
        buffer = self.scratch.of(N * (self.widest + 2 * self.width) + max(N * (self.widest + native.LANES), attention))
        attended, y = torch.empty_like(x), torch.empty_like(x)
        native.CALLS["decode_layer"](
            *(ctypes.addressof(self.layer), ctypes.addressof(step), x.data_ptr(), attended.data_ptr(), y.data_ptr()),
            *(buffer.data_ptr(), self.rate, threads),
        )
        return y, attended
