"""MKL on AMD CPUs: a library that tells it the CPU is one of Intel's, so that it takes its fast kernels.

MKL asks `mkl_serv_intel_cpu_true`; preloaded, this answer comes first. Compiled at run time, because it is three words of C.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


def mended(folder: Path) -> tuple[dict[str, str], str]:
    """(environment variables of a process with MKL mended, "") or ({}, why there are none)."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return {}, "no C compiler"
    source, library = folder / "intel.c", folder / "libintel.so"
    source.write_text(SOURCE)
    built = subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], capture_output=True, text=True)
    if built.returncode:
        return {}, f"the compiler failed: {built.stderr.strip()[-120:]}"
    return {"LD_PRELOAD": str(library)}, ""


def is_amd() -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and "AuthenticAMD" in info.read_text()
