"""fp32 regions of a model, and bf16 products on a CPU without bf16 instructions.

Such a processor multiplies bf16 numbers about 15 times slower than fp32 numbers. Here inputs are rounded to bf16, the product is computed
in fp32, and the result is rounded. Sums are fp32 in both forms, so results differ only in summation order. Gradients are rounded where
autocast would round them. The module replaces autocast's products on a CPU (by their dispatch key); nothing changes outside of autocast.
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
    """Returns a context without autocast, for coefficients that need fp32."""
    return torch.autocast(x.device.type, enabled=False)


def rms(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean x^2 + eps) over the last axis, in fp32, without a gain."""
    x = x.float()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


_ONEDNN_WITHOUT_BF16 = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI")


def has_bf16_units() -> bool:
    """Returns whether the processor has bf16 instructions, with which bf16 products are at least as fast as fp32 products."""
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _ONEDNN_WITHOUT_BF16:
        return False
    if platform.machine() in ("aarch64", "arm64"):
        return "bf16" in features()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


PRODUCTS = ("linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "addbmm", "conv1d", "scaled_dot_product_attention")
"""Operations of models that autocast computes in bf16. torch computes other products, such as einsum, with these."""


def rounds() -> bool:
    """Returns whether bf16 products on the CPU are computed in this module's form."""
    return PATHS.bf16 and not has_bf16_units()


def operand(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns x rounded to `dtype`, in the type in which this processor should multiply it."""
    x = x.to(dtype)
    return x.float() if dtype == torch.bfloat16 and x.device.type == "cpu" and rounds() else x


def _replace(library: Library, name: str) -> None:
    """Replaces autocast's operation `name` by a form that rounds the inputs, and the result if the product is computed in fp32."""
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
"""The library must stay alive: its replacements end with it."""
