"""Where a model computes in fp32, and products of bf16 numbers on a CPU without instructions for them.

Such a processor multiplies bf16 numbers some fifteen times slower than fp32 numbers. There Muon, the loss and bf16 decoding round inputs to
bf16, multiply in fp32 and round the result: the numbers differ only by the order of summation. Autocast's products are torch's own.
"""

from __future__ import annotations

import os
import platform

import torch
from torch import Tensor

from models.native.build import features
from models.paths import PATHS


def full_precision(x: Tensor) -> torch.autocast:
    """A context without autocast, for coefficients that few bits would spoil."""
    return torch.autocast(x.device.type, enabled=False)


def rms(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean x^2 + eps) over the last axis, in fp32, without a gain."""
    x = x.float()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


_ONEDNN_WITHOUT_BF16 = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI")


def has_bf16_units() -> bool:
    """Whether products of bf16 numbers are at least as fast as those of fp32 numbers: the processor multiplies them in one instruction."""
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _ONEDNN_WITHOUT_BF16:
        return False
    if platform.machine() in ("aarch64", "arm64"):
        return "bf16" in features()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def rounds() -> bool:
    """Whether products of bf16 numbers on the CPU are computed in this form."""
    return PATHS.bf16 and not has_bf16_units()


def operand(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x rounded to `dtype`, in the type in which this processor is to multiply it."""
    x = x.to(dtype)
    return x.float() if dtype == torch.bfloat16 and x.device.type == "cpu" and rounds() else x
