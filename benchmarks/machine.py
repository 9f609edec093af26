"""Description of the machine, its matrix product rates, and a workaround for slow MKL on AMD CPUs.

A ratio between two programs depends on these rates: what is not a matrix product weighs more where products are fast. So every benchmark
measures them in its own run, on its own threads, and prints them beside its ratios.
"""

import ctypes
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from models.inference import prepared
from orchestrator.ledger.provenance import processor

ROWS, INPUTS, OUTPUTS = 1024, 512, 2048


def matmul_gflops(product: Callable[[], Any], seconds: float = 0.5) -> float:
    """Returns the best rate of 1024 x 512 x 2048 products within `seconds`, in GFLOP/s."""
    work, best, end = 2 * ROWS * INPUTS * OUTPUTS / 1e9, 0.0, time.perf_counter() + seconds
    product()
    while time.perf_counter() < end:
        started = time.perf_counter()
        for _ in range(5):
            product()
        best = max(best, 5 * work / (time.perf_counter() - started))
    return best


def matmul_rates(seconds: float = 0.5) -> dict[str, float]:
    """Returns GFLOP/s of fp32 by torch's default library and by oneDNN, of bf16, and of int8 as decoding has it; restores the settings."""
    backend = torch.backends.mkldnn.matmul
    before = backend.fp32_precision
    a, b = torch.randn(ROWS, INPUTS), torch.randn(INPUTS, OUTPUTS)
    a_bf16, b_bf16 = a.bfloat16(), b.bfloat16()
    try:
        rates = {}
        for name, setting in (("fp32 default", "none"), ("fp32 onednn", "bf16")):
            backend.fp32_precision = setting
            rates[name] = matmul_gflops(lambda: a @ b, seconds)
        with torch.autocast("cpu", torch.bfloat16):  # as training multiplies them
            rates["bf16"] = matmul_gflops(lambda: a_bf16 @ b_bf16, seconds)
        linear = torch.nn.Linear(INPUTS, OUTPUTS)
        with torch.no_grad(), prepared(linear, "int8"):
            rates["int8"] = matmul_gflops(lambda: linear(a), seconds)
        return rates
    finally:
        backend.fp32_precision = before


class MatrixRates:
    """Rates in GFLOP/s, measured again and again during a benchmark."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}

    def measure(self, seconds: float = 0.3) -> None:
        for name, rate in matmul_rates(seconds).items():
            self.rates.setdefault(name, []).append(rate)

    def peak(self, precision: str, *, onednn: bool) -> float:
        """Returns the median rate of `precision`; for fp32 the best library's, oneDNN's where it counts; NaN before any measurement."""
        names = {"fp32": ["fp32 default", *(["fp32 onednn"] if onednn else [])]}.get(precision, [precision])
        return max((statistics.median(self.rates[name]) for name in names if name in self.rates), default=float("nan"))

    def summary(self) -> dict[str, dict[str, float]]:
        """{name: {"median", "min", "max"}}, for the JSON and `rates_text`."""
        return {
            name: {"median": round(statistics.median(r), 1), "min": round(min(r), 1), "max": round(max(r), 1)}
            for name, r in self.rates.items()
        }


def measured_rates() -> dict[str, dict[str, float]]:
    """Returns one measurement of the rates."""
    rates = MatrixRates()
    rates.measure()
    return rates.summary()


class _Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _sizes = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _sizes]


def allocated() -> int:
    """Bytes that this process has from glibc's malloc, where torch has its tensors from."""
    call = ctypes.CDLL(None).mallinfo2
    call.restype = _Mallinfo
    found = call()
    return int(found.uordblks + found.hblkhd)


def rates_text(summary: dict[str, dict[str, float]]) -> str:
    return "matrix GFLOP/s: " + ", ".join(f"{name} {rate['median']:.0f}" for name, rate in summary.items())


def describe() -> dict[str, Any]:
    """Returns the CPU, its cores, the load, the versions of torch and Python, and torch's threads."""
    load = Path("/proc/loadavg").read_text().split()[0] if Path("/proc/loadavg").exists() else ""
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "load": load,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }


def is_amd() -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and "AuthenticAMD" in info.read_text()


def mkl_remedy(folder: Path) -> tuple[dict[str, str], str]:
    """Returns (environment variables with which MKL uses its fast kernels on an AMD CPU, ""), or ({}, why there are none).

    MKL calls `mkl_serv_intel_cpu_true`, which a preloaded library, compiled here, overrides.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return {}, "no C compiler"
    source, library = folder / "intel.c", folder / "libintel.so"
    source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    built = subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], capture_output=True, text=True)
    if built.returncode:
        return {}, f"the compiler failed: {built.stderr.strip()[-120:]}"
    return {"LD_PRELOAD": str(library)}, ""
