"""Training metrics between two reports, kept on the device until they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from orchestrator.training.batches import Update
from orchestrator.training.runtime import Runtime
from orchestrator.training.state import Progress


class Meter:
    """Accumulates the logs of updates; `read` returns their metrics and resets.

    Sums are float64, so that a checkpoint's JSON holds them exactly. `read` and `state` are collective over the workers.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
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
            self.sums[name] = self.sums[name] + value if name in self.sums else value.double()

    def _totals(self) -> dict[str, float]:
        """The sums over all workers."""
        names = sorted(self.sums)
        return dict(zip(names, self.runtime.sum(torch.stack([self.sums[name] for name in names])).tolist(), strict=True)) if names else {}

    def read(self) -> dict[str, Any]:
        """nll and loss per target token; accuracy of the sampled positions; regularizers as mean per update."""
        if not self.steps:
            return {}
        totals, metrics = self._totals(), dict[str, Any]()
        right, sampled = totals.pop("right", None), totals.pop("sampled", None)
        if right is not None and sampled is not None:
            metrics["train/accuracy"] = right / max(1.0, sampled)
        for name, value in totals.items():
            metrics[f"train/{name}"] = value / (self.tokens if name in ("nll", "loss") else self.steps)
        metrics["train/tokens_per_second"] = round(self.tokens / self.seconds, 1) if self.seconds else 0.0
        self._clear()
        return metrics

    def state(self) -> dict[str, Any]:
        """What no report holds yet, for a checkpoint."""
        state = {"sums": self._totals(), "steps": self.steps, "tokens": self.tokens, "seconds": self.seconds}
        self.load(state)
        return state

    def load(self, state: Mapping[str, Any]) -> None:
        """Of a checkpoint. The main worker continues the sums of all workers; the others start from 0."""
        self.steps, self.tokens, self.seconds = state["steps"], state["tokens"], state["seconds"]
        share = float(self.runtime.is_main)
        self.sums = {
            name: torch.tensor(total * share, dtype=torch.float64, device=self.runtime.device) for name, total in state["sums"].items()
        }
