"""The state of a training without its tensors, which every checkpoint holds, and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from orchestrator.ledger.weights import weights_sha256
from orchestrator.training.runtime import Runtime


@dataclass
class Progress:
    """Progress of a training. step: finished updates. phase, phase_step: number of restarts, and the schedule's step count.
    epoch, index: the next micro-batch. phase_length: updates of the current phase, fixed at its start if the schedule needs it; else 0.
    best_*, last_nll: of validations. worse: number of consecutive validations without improvement. before_nll, cuts: nll of the phase's
    previous validation, and cuts of its rate (plateau). rate_cuts: all cuts of the training, {"step", "epoch": finished epochs, "lr": new
    rate}. workers: [finished updates, number of workers from there on] of each change. origin: component sources
    (`ledger.component_sources`), for the record."""

    step: int = 0
    phase: int = 0
    phase_step: int = 0
    phase_length: int = 0
    epoch: int = 0
    index: int = 0
    best_nll: float | None = None
    best_step: int = 0
    last_nll: float | None = None
    worse: int = 0
    before_nll: float | None = None
    cuts: int = 0
    rate_cuts: list[dict[str, Any]] = field(default_factory=list)
    workers: list[list[int]] = field(default_factory=list)
    tgt_tokens: int = 0
    real_tokens: int = 0
    padded_tokens: int = 0
    seconds: float = 0.0
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def padding_share(self) -> float:
        return 1.0 - self.real_tokens / self.padded_tokens if self.padded_tokens else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Returns real target tokens per second of training, without the time of validations and checkpoints."""
        return self.tgt_tokens / self.seconds if self.seconds else 0.0

    def count_workers(self, number: int) -> None:
        """Records that the following updates have this number of workers."""
        if not self.workers or self.workers[-1][1] != number:
            self.workers = [*(change for change in self.workers if change[0] < self.step), [self.step, number]]


@dataclass(frozen=True)
class TrainResult:
    """Outcome of a training. status: done | stopped | diverged. ended_by: see `phases.ended_by`."""

    status: str
    reason: str
    progress: Progress
    params: int
    weights: Mapping[str, Tensor]
    warm_start: dict[str, list[str]] | None = None
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
        more: dict[str, Any] = {"ended_by": self.ended_by, "rate_cuts": p.rate_cuts or None, "warm_start": self.warm_start}
        more["workers"] = p.workers if len(p.workers) > 1 else None
        return record | p.origin | {name: value for name, value in more.items() if value is not None}


class Diverged(Exception):
    """The loss or a gradient is not finite."""


def check_finite(runtime: Runtime, step: int, nll: Tensor, norm: Tensor | None) -> None:
    """Raises Diverged on every worker if the loss or the gradient norm of any of them is not finite."""
    finite = torch.stack([nll.detach().float(), nll.new_zeros(()).float() if norm is None else norm.float()])
    if not bool(torch.isfinite(runtime.sum(finite)).all()):
        raise Diverged(f"loss or gradient is not finite at step {step}")
