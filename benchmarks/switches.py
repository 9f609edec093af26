"""Our fast paths, all on or all off: the one place that knows them."""

from __future__ import annotations

import torch

from models.dropout import Dropout
from orchestrator import cpu


def set(fast: bool) -> None:
    """On: as the product runs by itself. Off: torch's own dropout and its default matmul backend."""
    Dropout.fast = fast
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if fast and cpu.matmul_path() == "onednn" else "none"
