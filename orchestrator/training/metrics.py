"""Training metrics between two reports, kept on the device until they are read."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from orchestrator.training.batches import Update
from orchestrator.training.state import Progress


class Meter:
    """Accumulates the logs of updates; `read` returns their metrics and resets."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.steps = self.tokens = 0
        self.seconds = 0.0

    def add(self, progress: Progress, update: Update, sums: dict[str, Tensor], seconds: float) -> None:
        self.steps += 1
        self.tokens += update.tgt_tokens
        self.seconds += seconds
        progress.tgt_tokens += update.tgt_tokens
        progress.real_tokens += update.tgt_tokens + update.src_tokens
        progress.padded_tokens += update.padded_tokens
        progress.seconds += seconds
        for name, value in sums.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value

    def read(self, world_size: int) -> dict[str, Any]:
        """nll and loss per target token; accuracy of the sampled positions; regularizers as mean per update.

        The sums are those of one of `world_size` workers.
        """
        if not self.steps:
            return {}
        metrics: dict[str, Any] = {}
        right, sampled = self.sums.pop("right", None), self.sums.pop("sampled", None)
        if right is not None and sampled is not None:
            metrics["train/accuracy"] = float(right) / max(1.0, float(sampled))
        for name, value in self.sums.items():
            per = self.tokens / world_size if name in ("nll", "loss") else self.steps / world_size
            metrics[f"train/{name}"] = float(value) / per
        metrics["train/tokens_per_second"] = round(self.tokens / self.seconds, 1) if self.seconds else 0.0
        self._clear()
        return metrics
