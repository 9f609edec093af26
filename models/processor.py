"""What this processor can do, or is told to do: NMT_ISA limits the instructions, so that one machine can test another's arithmetic.

NMT_ISA=baseline | avx2 | avx512: our own C and the choice of bf16 products use no later instructions. ONEDNN_MAX_CPU_ISA and
ATEN_CPU_CAPABILITY do the same for torch's libraries.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from pathlib import Path

import torch

LEVELS = {"baseline": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}
"""Limits, lowest first, and what compilers call them on x86-64."""
_NEEDS = {"baseline": set(), "avx2": {"avx2", "fma", "bmi2"}, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}}
_ONEDNN_WITHOUT_BF16 = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI")


@functools.cache
def features() -> frozenset[str]:
    """The processor's flags, as Linux names them; none where it does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.lower().startswith(("flags", "features"))), "").partition(":")[2].split())


def isa_limit() -> str | None:
    """NMT_ISA, where the processor has that and more; None: no limit."""
    return _LIMIT if _LIMIT is not None and _NEEDS[_LIMIT] <= features() else None


def has_bf16_units() -> bool:
    """Whether products of bf16 numbers are at least as fast as those of fp32 numbers: the processor multiplies them in one instruction."""
    if _LIMIT is not None or os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _ONEDNN_WITHOUT_BF16:
        return False
    if platform.machine() in ("aarch64", "arm64"):
        return "bf16" in features()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _of_environment() -> str | None:
    name = os.environ.get("NMT_ISA") or None
    if name is None or name in LEVELS:
        return name
    # asked for by a person, answered as bad input is: one line, exit code 2
    print(f"error: NMT_ISA: found {name}; expected {', '.join(LEVELS)}", file=sys.stderr)
    raise SystemExit(2)


_LIMIT = _of_environment()
