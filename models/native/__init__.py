"""Small decoding steps in C, for fp32 on a CPU, compiled at first use if a C compiler exists.

One call reads only the data that it needs, once. Results equal torch's up to rounding. torch's operations run instead without a compiler,
on other devices, in other types and while gradients are recorded (`PATHS.native`).

Shapes: B sentences, N rows (hypotheses, sentence-major), T new positions, D = H K: H heads of width K, V words. Linear maps: from D to M.
"""

import ctypes
import functools
import logging
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from models.native.build import BuildError, library
from models.paths import PATHS

LANES = 16
"""Numbers per vector. Positions of a memory are padded to a multiple; torch handles widths that are no multiple."""
HEADS = (16, 32, 64, 128)
"""Supported widths of a head."""
HIDDEN = -1e9
"""Added to the score of hidden positions."""
_POINTER, _LONG, _FLOAT, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
_SIGNATURES = {
    "attend_cells": [_POINTER] * 3 + [_LONG] * 3 + [_POINTER] * 5 + [_LONG] * 8 + [_FLOAT, _INT],
    "attend_memory": [_POINTER, _LONG] + [_POINTER] * 7 + [_LONG] * 5 + [_FLOAT, _INT],
    "lay_out_memory": [_POINTER] * 2 + [_LONG] * 2 + [_POINTER] * 6 + [_LONG] * 5 + [_INT],
    "best_words": [_POINTER] * 7 + [_LONG] * 6 + [_INT],
    "linear": [_POINTER] * 4 + [_LONG, _INT],
    "decode_layers": [_POINTER] * 2 + [_LONG] + [_POINTER] * 4 + [_LONG] * 7 + [_FLOAT, _INT],
    "pack": [_POINTER] * 2 + [_LONG] * 2,
    "pack8": [_POINTER] * 3 + [_LONG] * 2,
    "panel": [],
    "group8": [],
}
CALLS: dict[str, Callable[..., int]] = {}
"""Functions of the library, after `available` has returned True."""


@functools.cache
def available() -> bool:
    """Returns whether the library exists. The first call compiles it."""
    try:
        loaded = library(Path(__file__).parent)
    except BuildError as error:
        level = logging.WARNING if "NMT_ISA" in os.environ else logging.INFO
        logging.getLogger(__name__).log(level, "decoding uses torch's operations alone: %s", error)
        return False
    for name, arguments in _SIGNATURES.items():
        CALLS[name] = function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, None if arguments else _INT
    return True


def runs_on(x: Tensor) -> bool:
    """Returns whether the C functions support `x`."""
    return PATHS.native and x.dtype == torch.float32 and x.device.type == "cpu" and not torch.is_grad_enabled() and available()


def _rows(x: Tensor) -> Tensor:
    """Returns x [B, T, D], copied unless all its rows have the same distance in memory."""
    return x if x.stride(2) == 1 and x.stride(0) == x.shape[1] * x.stride(1) else x.contiguous()


def attend_cells(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, past: Tensor, *, sentences: int, start: int, heads: int
) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V of new positions q, k, v [N, T, D], each over its own cells -> [N, T, D].
    keys, values [B, .., C, D]: receive `k` and `v` from cell `start` on. past [N, P]: cells of each row, the new ones last."""
    rows, length, width = q.shape
    d_head, seen = width // heads, past.shape[1]
    threads = torch.get_num_threads()
    z, scratch = q.new_empty(rows, length, width), q.new_empty(threads, seen + LANES)
    q, k, v = map(_rows, (q, k, v))
    past = past.contiguous()
    CALLS["attend_cells"](
        *(q.data_ptr(), k.data_ptr(), v.data_ptr(), q.stride(1), k.stride(1), v.stride(1)),
        *(keys.data_ptr(), values.data_ptr(), past.data_ptr(), z.data_ptr(), scratch.data_ptr()),
        *(sentences, rows // sentences, length, heads, d_head, keys.shape[-2], seen, start, 1.0 / math.sqrt(d_head), threads),
    )
    return z


def memory_layout(k: Tensor, v: Tensor, starts: Tensor, bias: Tensor, heads: int, *, packed: bool) -> tuple[Tensor, ...]:
    """Keys and values [.., D] of B sentences, whose rows begin at starts [B + 1] (the last is their end), and bias [B, 1, 1, S] -> keys
    [B, H, K, S'], values [B, H, S', K], bias [B, S'], lengths [B]. All positions from a sentence's length on are hidden. S': S rounded up
    to a multiple of LANES. packed: the rows are only those that `bias` does not hide."""
    k, v = _rows(k), _rows(v)
    (B, _, _, given), D = bias.shape, k.shape[-1]
    S = -(-given // LANES) * LANES
    keys, values, hide = k.new_empty(B, heads, D // heads, S), k.new_empty(B, heads, S, D // heads), k.new_empty(B, S)
    lengths = starts.new_empty(B)
    bias = bias.contiguous()
    CALLS["lay_out_memory"](
        *(k.data_ptr(), v.data_ptr(), k.stride(-2), v.stride(-2), starts.data_ptr(), None if packed else bias.data_ptr()),
        *(keys.data_ptr(), values.data_ptr(), hide.data_ptr(), lengths.data_ptr()),
        *(B, heads, D // heads, S, given, torch.get_num_threads()),
    )
    return keys, values, hide, lengths


def attend_memory(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor, lengths: Tensor, *, starts: Tensor | None = None) -> Tensor:
    """softmax(Q K^T / sqrt(K) + bias) V of queries q over the results of `memory_layout`. q: [B, Q, D], or rows [.., D]; the rows of each
    sentence then begin at starts [B + 1]."""
    sentences, heads, d_head, length = keys.shape
    q, threads = _rows(q), torch.get_num_threads()
    z, scratch = q.new_empty(q.shape), q.new_empty(threads, length)
    CALLS["attend_memory"](
        *(q.data_ptr(), q.stride(-2), None if starts is None else starts.data_ptr(), keys.data_ptr(), values.data_ptr(), bias.data_ptr()),
        *(lengths.data_ptr(), z.data_ptr(), scratch.data_ptr(), sentences, q.numel() // q.shape[-1] // sentences, heads, d_head, length),
        *(1.0 / math.sqrt(d_head), threads),
    )
    return z


def best_words(logits: Tensor, banned: Tensor, repeated: Tensor, count: int, eos: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the `count` largest log-probabilities of each row and their words, [N, count] each, and the log-probability of word `eos`
    [N]. The best word comes first; of equal values, the lower word. logits [N, V]: overwritten by the call. Words in banned [I] and
    repeated [N, R] count in the softmax but are not chosen."""
    logits, repeated = logits.contiguous(), repeated.contiguous()
    rows, words = logits.shape
    value, word = logits.new_empty(rows, count), banned.new_empty(rows, count)
    threads = torch.get_num_threads()
    special, scratch = logits.new_empty(rows), logits.new_empty(threads, words // 64 + 1)
    CALLS["best_words"](
        *(logits.data_ptr(), banned.data_ptr(), repeated.data_ptr(), value.data_ptr(), word.data_ptr(), special.data_ptr()),
        *(scratch.data_ptr(), rows, words, len(banned), repeated.shape[1], count, eos, threads),
    )
    return value, word, special


class _LinearMap(ctypes.Structure):
    """`linear_map` of vectors.h."""

    _fields_ = (
        *((name, _POINTER) for name in ("weights", "bias", "scale", "offset")),
        *((name, _LONG) for name in ("inputs", "outputs", "relu")),
    )


class Linear:
    """x W^T + b for rows x [.., D]; with `relu`, max(x W^T + b, 0). b [M] or None. W [M, D] is fp32, or 8-bit with a `scale` s [M]. Then
    each row of x is rounded to 8 bits, sums are exact and y = s_x s (Q_x W) + b."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool, scale: Tensor | None = None) -> None:
        self.outputs, self.inputs = weight.shape
        panel = CALLS["panel"]()
        rounded = -(-self.outputs // panel) * panel
        weight, self.packed = weight.contiguous(), weight.new_empty(rounded, self.inputs, dtype=torch.int16 if scale is not None else None)
        self.bias, self.scale, self.offset = _padded(bias, rounded), None, None
        if scale is None:
            CALLS["pack"](weight.data_ptr(), self.packed.data_ptr(), self.outputs, self.inputs)
        else:
            self.scale, self.offset = _padded(scale, rounded), torch.empty(rounded, dtype=torch.int32)
            CALLS["pack8"](weight.data_ptr(), self.packed.data_ptr(), self.offset.data_ptr(), self.outputs, self.inputs)
        pointers = (None if t is None else t.data_ptr() for t in (self.packed, self.bias, self.scale, self.offset))
        self.map = _LinearMap(*pointers, self.inputs, self.outputs, int(relu))
        self._call, self._at = CALLS["linear"], ctypes.addressof(self.map)

    @staticmethod
    def takes(weight: Tensor, bits: int = 32) -> bool:
        """Returns whether C supports fp32 `weight` [M, D]: its outputs fill the panels, and 8-bit inputs form whole groups."""
        if not runs_on(weight):
            return False
        outputs, inputs = weight.shape
        filled = CALLS["panel"]() <= outputs
        return filled if bits == 32 else filled and inputs >= LANES and inputs % CALLS["group8"]() == 0 and _exact()

    def __call__(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        rows = x.numel() // self.inputs
        y, scratch = x.new_empty(*x.shape[:-1], self.outputs), x.new_empty(rows, self.inputs + LANES)
        self._call(self._at, x.data_ptr(), y.data_ptr(), scratch.data_ptr(), rows, torch.get_num_threads())
        return y


@functools.cache
def _exact() -> bool:
    """Returns whether sums of the largest 8-bit products are exact here: instructions of some processors saturate at 16 bits."""
    inputs, outputs = 64, CALLS["panel"]()
    map_of = Linear(torch.full((outputs, inputs), 127, dtype=torch.int8), None, False, torch.ones(outputs))
    exact = all((map_of(torch.full((1, inputs), x)) - 127.0 * inputs * x).abs().max() < 1e-2 for x in (1.0, -1.0))
    if not exact:
        logging.getLogger(__name__).warning("8-bit products are wrong on this processor: decoding multiplies whole numbers in fp32 instead")
    return exact


class _DecoderLayer(ctypes.Structure):
    """`decoder_layer` of decoder.c."""

    _fields_ = (
        *((name, _LinearMap) for name in ("joint", "self_output", "query", "cross_output", "inner", "outer")),
        *((name, _POINTER * 3) for name in ("gain", "bias")),
        *(("eps", _FLOAT), ("pre", _INT), ("H", _LONG), ("K", _LONG)),
    )


class DecoderLayers:
    """A decoding step of plain decoder layers. Each layer has six maps (x -> [q; k; v], self-attention's output, cross-attention's query
    and output, the feed-forward network's two) and three norms: before its sub-layers with `pre`, else after them."""

    def __init__(self, layers: Sequence[tuple[Sequence[Linear], Sequence[nn.LayerNorm]]], heads: int, pre: bool) -> None:
        self._kept, (maps, norms) = layers, layers[0]
        self._width, self._widest = maps[1].outputs, max(maps[0].outputs, maps[4].outputs)
        d_head = self._width // heads
        self._scale, self._layers = 1.0 / math.sqrt(d_head), (_DecoderLayer * len(layers))()
        for i, (maps, norms) in enumerate(layers):
            vectors = [(_POINTER * 3)(*(getattr(norm, name).data_ptr() for norm in norms)) for name in ("weight", "bias")]
            self._layers[i] = _DecoderLayer(*(m.map for m in maps), *vectors, norms[0].eps, pre, heads, d_head)

    def __call__(self, x: Tensor, memories: Sequence[tuple[Tensor, ...]], past: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """x [N, T, D] -> (the last layer's output, its cross-attention's output), [N, T, D] each. past, start: as in `attend_cells`.
        memories: for each layer the cells of keys and values, then the results of `memory_layout`."""
        (rows, length, _), (keys, _, source, *_), threads = x.shape, memories[0], torch.get_num_threads()
        past, seen, N = past.contiguous(), past.shape[1], rows * length
        y, attended = x.clone(memory_format=torch.contiguous_format), x.new_empty(x.shape)
        room = max(N * (self._widest + LANES), threads * max(seen + LANES, source.shape[3]))
        buffer = x.new_empty(N * (self._widest + 2 * self._width) + room)
        pointers = (_POINTER * (6 * len(memories)))(*(t.data_ptr() for memory in memories for t in memory))
        sizes = (len(source), rows // len(source), length, keys.shape[2], seen, start, source.shape[3])
        CALLS["decode_layers"](
            *(self._layers, pointers, len(memories), y.data_ptr(), attended.data_ptr(), buffer.data_ptr(), past.data_ptr()),
            *(*sizes, self._scale, threads),
        )
        return y, attended


def _padded(x: Tensor | None, length: int) -> Tensor:
    """Returns x padded with zeros to `length`; None: only zeros."""
    return torch.zeros(length) if x is None else nn.functional.pad(x, (0, length - len(x)))
