"""Where a model computes in fp32, and products of bf16 numbers on a CPU without instructions for them.

There inputs are rounded to bf16, fp32 does the rest, the result is rounded. Such a processor multiplies bf16 numbers some fifteen times
slower than fp32 numbers. Sums are fp32 in both forms: the numbers differ only by the order of summation. Gradients are rounded where
autocast would round them. The module replaces autocast's products on a CPU (by their dispatch key); outside of autocast nothing changes.
"""

import os
import platform
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.library import Library

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


PRODUCTS = ("linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "addbmm", "conv1d", "scaled_dot_product_attention")
"""What autocast computes in bf16 and models use; torch makes other products, such as einsum's, of these."""


def rounds() -> bool:
    """Whether products of bf16 numbers on the CPU are computed in this form."""
    return PATHS.bf16 and not has_bf16_units()


def operand(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x rounded to `dtype`, in the type in which this processor is to multiply it."""
    x = x.to(dtype)
    return x.float() if dtype == torch.bfloat16 and x.device.type == "cpu" and rounds() else x


def _replace(library: Library, name: str) -> None:
    """Makes autocast's `name` round its inputs, and its result where they are computed in fp32."""
    product = getattr(torch.ops.aten, name).default

    def cast(x: Any) -> Any:
        eligible = isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64
        return operand(x, torch.get_autocast_dtype("cpu")) if eligible else x

    def rounded(*args: Any, **options: Any) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            y: Tensor = product(*map(cast, args), **{key: cast(value) for key, value in options.items()})
            return y.to(torch.get_autocast_dtype("cpu")) if y.dtype == torch.float32 else y

    library.impl(name, rounded, "AutocastCPU", allow_override=True)


def _install() -> Library:
    library = Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        for name in PRODUCTS:
            _replace(library, name)
    return library


_LIBRARY = None if has_bf16_units() else _install()
"""Kept: what it replaces ends with it."""
