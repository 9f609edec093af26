"""Fast, honest CPU settings: threads, matmul backend, memory allocator."""

from __future__ import annotations

import ctypes
import functools

import torch

from models.paths import PATHS

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc malloc.h


def use(threads: int) -> str:
    """Set this process up for `threads` threads of compute; returns the matmul path taken, for the capsule."""
    torch.set_num_threads(threads)
    _keep_memory()
    return matmul_path()


@functools.cache
def matmul_path() -> str:
    """Route fp32 products through oneDNN where that is faster and still fp32: `onednn` or `default`.

    MKL takes a slow path on AMD. The switch is called bf16 because it allows the library to compute in bf16, which CPUs without matrix
    units do not do; so the result is checked against fp64 and the switch taken back where the products are not fp32.
    """
    if not PATHS.matmul or not torch.backends.mkldnn.is_available():
        return "default"
    backend = getattr(torch.backends.mkldnn, "matmul", None)
    if backend is None or not hasattr(backend, "fp32_precision"):
        return "default"
    before = backend.fp32_precision
    backend.fp32_precision = "bf16"
    if not all(_is_fp32(*shape) for shape in ((64, 256, 256), (300, 512, 129), (1024, 1024, 256))):
        backend.fp32_precision = before
        return "default"
    return "onednn"


def _is_fp32(n: int, k: int, m: int) -> bool:
    generator = torch.Generator().manual_seed(n * k + m)
    a, b = torch.randn(n, k, generator=generator), torch.randn(k, m, generator=generator)
    exact = a.double() @ b.double()
    bound = a.abs().double() @ b.abs().double()
    # fp32 with any order of summation stays under k * 2^-24 of the sum of magnitudes; bf16 inputs alone cost 2^-9
    return bool(((a @ b - exact).abs() <= bound * k * 2.0**-24).all())


def _keep_memory() -> None:
    """Let malloc keep large blocks: the training step frees and takes the same sizes again and again."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
    except (OSError, AttributeError):  # not glibc
        pass
