"""The outcome of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orchestrator.ledger.weights import weights_sha256
from orchestrator.training.runtime import Runtime
from orchestrator.training.state import Progress
from orchestrator.training.warm_start import WarmStart


@dataclass(frozen=True)
class TrainResult:
    """status: done | stopped | diverged. ended_by: see `phases.ended_by`, None unless done. executed_steps: by this process."""

    status: str
    reason: str
    progress: Progress
    params: int
    weights: Mapping[str, Tensor]
    executed_steps: int
    warm_start: WarmStart | None = None
    ended_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        p = self.progress
        record = {
            "status": self.status,
            "reason": self.reason,
            "steps": p.step,
            "epochs": p.epoch,
            "params": self.params,
            "weights_sha256": weights_sha256(self.weights),
            "tokens_per_second": round(p.tokens_per_second, 1),
            "padding_share": round(p.padding_share, 4),
            "seconds": round(p.seconds, 2),
            "best_step": p.best_step,
            "valid": {"nll": p.last_nll, "best_nll": p.best_nll},
        }
        if self.ended_by is not None:
            record["ended_by"] = self.ended_by
        if p.rate_cuts:
            record["rate_cuts"] = p.rate_cuts
        return record | p.origin | ({} if self.warm_start is None else {"warm_start": self.warm_start.to_json()})


class Diverged(Exception):
    """The loss or a gradient is not finite."""


def check_finite(runtime: Runtime, step: int, nll: Tensor, norm: Tensor | None) -> None:
    """Raises Diverged on every worker if the loss or the gradient norm of any of them is not finite."""
    finite = torch.stack([nll.detach().float(), nll.new_zeros(()).float() if norm is None else norm.float()])
    if not bool(torch.isfinite(runtime.sum(finite)).all()):
        raise Diverged(f"loss or gradient is not finite at step {step}")
