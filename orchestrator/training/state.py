"""The state of a training beside its tensors; every checkpoint holds all of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class Progress:
    """step: finished updates. phase, phase_step: restarts, and the clock of the schedule. epoch, index: the next micro-batch.

    phase_length: updates of the current phase, fixed at its start where the schedule needs it; else 0.

    best_*, last_nll, worse: validation; worse: validations in a row without improvement. before_nll, cuts: nll of the phase's previous
    validation, and cuts of its rate (see `plateau`). rate_cuts: of the whole training, {"step", "epoch": finished epochs, "lr": the new
    rate}. origin: what the training is made of (`ledger.component_sources`), for its record.
    """

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
    tgt_tokens: int = 0
    real_tokens: int = 0
    padded_tokens: int = 0
    seconds: float = 0.0
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def padding_share(self) -> float:
        """Share of padding among all positions computed, both sides."""
        return 1.0 - self.real_tokens / self.padded_tokens if self.padded_tokens else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens trained per second of training (validation and checkpoints not counted)."""
        return self.tgt_tokens / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Progress:
        return cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})
