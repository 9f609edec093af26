"""Description of the machine, its matrix product rates, and a workaround for slow MKL on AMD CPUs."""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import torch


def matmul_gflops(precision: str = "fp32", seconds: float = 0.5) -> float:
    """Returns the best rate of 1024 x 512 x 2048 products within `seconds`, in GFLOP/s, on the default device."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    a, b = torch.randn(1024, 512).to(dtype), torch.randn(512, 2048).to(dtype)
    work, best, end = 2 * 1024 * 512 * 2048 / 1e9, 0.0, time.perf_counter() + seconds
    a @ b
    while time.perf_counter() < end:
        started = time.perf_counter()
        for _ in range(5):
            a @ b
        best = max(best, 5 * work / (time.perf_counter() - started))
    return best


def matmul_rates(seconds: float = 0.5) -> dict[str, float]:
    """Returns GFLOP/s of fp32 with torch's default library, fp32 with oneDNN, and bf16; restores the settings."""
    backend = torch.backends.mkldnn.matmul
    before = backend.fp32_precision
    try:
        rates = {}
        for name, setting in (("fp32 default", "none"), ("fp32 onednn", "bf16")):
            backend.fp32_precision = setting
            rates[name] = matmul_gflops("fp32", seconds)
        return rates | {"bf16": matmul_gflops("bf16", seconds)}
    finally:
        backend.fp32_precision = before


def describe() -> dict[str, Any]:
    """Returns the CPU, its cores, the load, the versions of torch and Python, and torch's threads."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    load = Path("/proc/loadavg").read_text().split()[0] if Path("/proc/loadavg").exists() else ""
    return {
        "cpu": model,
        "cores": sum(line.startswith("processor") for line in lines),
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
