"""CPU settings for compute: threads, the matmul backend and the memory allocator."""

import ctypes
import functools
import os

import torch

from models.paths import PATHS

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc malloc.h

PRODUCTS = 64
"""Shapes of matrix products whose compiled code is kept, in place of 1,024. An update has some 60 of them, nearly all new in the next one,
whose batch has other lengths. The code of each takes 0.3 MB or more in either cache."""
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""oneDNN's cache of that code and torch's own above it, which keeps what oneDNN gives up. Where a variable is set, it stays."""


def use(threads: int) -> str:
    """Sets this process up for `threads` compute threads. Returns the matmul path that is used, for the capsule.

    To be called before the process' first matrix product, at which the sizes of caches are read.
    """
    for name in CACHES:
        os.environ.setdefault(name, str(PRODUCTS))
    torch.set_num_threads(threads)
    _keep_memory()
    return matmul_path()


@functools.cache
def matmul_path() -> str:
    """Routes fp32 matrix products through oneDNN where that is faster and still exact fp32. Returns `onednn` or `default`.

    MKL takes a slow path on AMD. The switch is named bf16 because it permits bf16 compute, which CPUs without matrix units do not use;
    so the products are checked against fp64, and the switch is reset where they are less precise than fp32.
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
    # the fp32 error is below k * 2^-24 of the sum of magnitudes in any order of summation; rounding the inputs to bf16 alone costs 2^-9
    return bool(((a @ b - exact).abs() <= bound * k * 2.0**-24).all())


def _keep_memory() -> None:
    """Makes malloc retain large blocks: every training step frees and allocates the same sizes."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
    except (OSError, AttributeError):  # not glibc
        pass
