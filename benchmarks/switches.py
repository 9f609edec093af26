"""Switches our fast paths on or off for a benchmark."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from models.paths import PATHS
from orchestrator import cpu

NAMES = list(vars(PATHS))


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Context: these paths are off."""
    before = {name: getattr(PATHS, name) for name in names}
    for name in names:
        setattr(PATHS, name, False)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(PATHS, name, value)


def set(fast: bool = True, *, off: str = "") -> None:
    """Turns all paths on (`fast`, the product's default) or off; `off` names a single path to turn off."""
    for name in NAMES:
        setattr(PATHS, name, fast and name != off)
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if PATHS.matmul and _onednn() else "none"


@functools.cache
def _onednn() -> bool:
    """Returns whether oneDNN's product is fast and exact on this machine; determined once, independent of the current switches."""
    before, PATHS.matmul = PATHS.matmul, True
    try:
        return cpu.matmul_path() == "onednn"
    finally:
        PATHS.matmul = before
