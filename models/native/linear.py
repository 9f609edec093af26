"""Linear maps whose weights are packed once, in fp32 or 8 bits, for the few rows of a step of decoding.

Shapes: N rows, D inputs, M outputs.
"""

from __future__ import annotations

import ctypes
import functools
import logging

import torch
from torch import Tensor

from models import native


class LinearMap(ctypes.Structure):
    """`linear_map` of steps.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weights", "bias", "scale", "offset")),
        *((name, ctypes.c_int64) for name in ("inputs", "outputs", "relu")),
    )


class Linear:
    """x W^T + b of rows x [.., D], and max of it and 0 with `relu`; b [M] or None.

    W [M, D] in fp32, or as 8-bit numbers with a `scale` [M]: then x is rounded to 8 bits by row (`native.quantise`), sums are exact and
    y = s_x s (Q_x W) + b.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool, scale: Tensor | None = None) -> None:
        self.outputs, self.inputs = weight.shape
        panel = native.CALLS["panel" if scale is None else "panel8"]()
        rounded = -(-self.outputs // panel) * panel
        weight, self.packed = weight.contiguous(), weight.new_empty(rounded, self.inputs, dtype=torch.int16 if scale is not None else None)
        self.bias, self.scale, self.offset = _padded(bias, rounded), None, None
        if scale is None:
            native.CALLS["pack"](weight.data_ptr(), self.packed.data_ptr(), self.outputs, self.inputs)
        else:
            self.scale, self.offset = _padded(scale, rounded), torch.empty(rounded, dtype=torch.int32)
            native.CALLS["pack8"](weight.data_ptr(), self.packed.data_ptr(), self.offset.data_ptr(), self.outputs, self.inputs)
        pointers = (None if t is None else t.data_ptr() for t in (self.packed, self.bias, self.scale, self.offset))
        self.map = LinearMap(*pointers, self.inputs, self.outputs, int(relu))
        self._call, self._at = native.CALLS["linear" if scale is None else "linear8"], ctypes.addressof(self.map)

    @staticmethod
    def takes(weight: Tensor, bits: int = 32) -> bool:
        """Whether this computes with fp32 `weight` [M, D]: the panels are filled, and 8-bit inputs come in whole groups."""
        if not native.runs_on(weight):
            return False
        panel, group = ("panel", 1) if bits == 32 else ("panel8", native.CALLS["group8"]())
        return native.CALLS[panel]() <= weight.shape[0] and weight.shape[1] % group == 0 and (bits == 32 or _exact())

    def __call__(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        rows = x.numel() // self.inputs
        y, scratch = x.new_empty(*x.shape[:-1], self.outputs), x.new_empty(rows, self.inputs + native.LANES)
        threads = native.threads_for(rows * self.inputs * self.outputs)
        self._call(self._at, x.data_ptr(), y.data_ptr(), scratch.data_ptr(), rows, threads)
        return y


@functools.cache
def _exact() -> bool:
    """Whether the largest 8-bit products have exact sums in this process: some processors' instructions cut them off at 16 bits."""
    inputs, outputs = 64, native.CALLS["panel8"]()
    found = Linear(torch.full((outputs, inputs), 127, dtype=torch.int8), None, False, torch.ones(outputs))(torch.ones(1, inputs))
    exact = bool((found - 127.0 * inputs).abs().max() < 1e-2)
    if not exact:
        logging.getLogger(__name__).warning("8-bit products are wrong on this processor: decoding multiplies whole numbers in fp32 instead")
    return exact


def _padded(x: Tensor | None, length: int) -> Tensor:
    """x with zeros behind it; None: zeros alone."""
    padded = torch.zeros(length)
    if x is not None:
        padded[: len(x)] = x
    return padded
