"""Our fast paths in a benchmark: all on, or some or all of them off."""

from __future__ import annotations

import functools

import torch

from models.paths import PATHS, Paths
from orchestrator import cpu


def set(fast: bool = True, *, off: str = "") -> None:
    """fast: as the product runs by itself; else with every path off. off: one that is off alone."""
    for name in Paths.names():
        setattr(PATHS, name, fast and name != off)
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if PATHS.matmul and _onednn() else "none"


@functools.cache
def _onednn() -> bool:
    """Is oneDNN's product fast and exact here? Asked once, whatever is on at the time."""
    before, PATHS.matmul = PATHS.matmul, True
    try:
        return cpu.matmul_path() == "onednn"
    finally:
        PATHS.matmul = before
