"""The schema of an optimisation: batches, the optimiser, its rate and its second phase."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from orchestrator.specs.base import Natural, Positive, Probability, Strict


class Stage(Strict):
    """Batches of another size from an epoch on (epochs count from 0)."""

    from_epoch: Positive
    size: Positive


class BatchSpec(Strict):
    """Size of one global micro-batch. `tokens`: padded target tokens at most; `sentences`: pairs. stages: other sizes in later epochs."""

    unit: Literal["tokens", "sentences"] = "tokens"
    size: Positive = 4096
    accumulate: Positive = 1
    stages: list[Stage] = Field(default_factory=list)

    @field_validator("stages")
    @classmethod
    def _in_order(cls, stages: list[Stage]) -> list[Stage]:
        epochs = [stage.from_epoch for stage in stages]
        if any(later <= earlier for earlier, later in itertools.pairwise(epochs)):
            raise ValueError(f"from_epoch is {', '.join(map(str, epochs))}; expected increasing epochs")
        return stages

    def size_at(self, epoch: int) -> int:
        """Size of the batches of an epoch (from 0)."""
        return next((stage.size for stage in reversed(self.stages) if stage.from_epoch <= epoch), self.size)

    @property
    def max_size(self) -> int:
        """Largest size in any epoch."""
        return max(self.size, *(stage.size for stage in self.stages), 0)


_DEFAULTS: dict[str, dict[str, Any]] = {
    "plateau": {"shrink": 0.1, "min_lr": 1e-4, "cut": "each_rise"},
    "wsd": {"cooldown": 0.2, "decay": "1-sqrt", "min_lr": None},
    "cosine": {"min_lr": None},
}
"""Options that belong to certain schedules alone, with their defaults there."""

_OPTIONAL = ("shrink", "min_lr", "cut", "cooldown", "decay")

ROUNDING = 1e-9
"""Relative: 0.1 cut three times is not under 1e-4."""


class Schedule(Strict):
    """Learning rate of update t of a phase of T updates, after a linear warm-up of w updates.

    noam: factor * d_model^-0.5 * min(t^-0.5, t * w^-1.5). inverse-sqrt: lr * sqrt(w / t). fixed: lr.
    wsd (warm-up, stable, decay; Hu et al. 2024): lr, then over the last `cooldown` * T updates down to `min_lr` (0 where it is null):
    decay linear as 1 - x, 1-sqrt as 1 - sqrt(x) (Haegele et al. 2024), x from 0 to 1.
    cosine (Loshchilov and Hutter 2017): half a cosine from lr to `min_lr` over the updates after the warm-up.
    plateau: lr * shrink^(cuts so far), without warm-up.

    w is `warmup`, or `warmup_ratio` * T. T is the number of updates of the phase: exact where max_steps decides, else estimated from the
    batches of the first epoch.

    plateau (Shen et al. 2018, section 4.3): `cut` each_rise cuts the rate at each validation whose nll is above that of the validation
    before it; after_first_rise at the first such validation and at every one after it. The training ends where the rate falls under
    `min_lr`. The paper's validations are its epochs: `train.validate_every: epoch`.
    """

    kind: Literal["noam", "inverse-sqrt", "fixed", "plateau", "wsd", "cosine"] = "noam"
    warmup: Natural = 4000
    warmup_ratio: Annotated[float, Field(gt=0, lt=1)] | None = None
    factor: Annotated[float, Field(gt=0)] = 1.0
    lr: Annotated[float, Field(gt=0)] | None = None
    shrink: Annotated[float, Field(gt=0, lt=1)] | None = None
    min_lr: Annotated[float, Field(gt=0)] | None = None
    cut: Literal["each_rise", "after_first_rise"] | None = None
    cooldown: Annotated[float, Field(gt=0, le=1)] | None = None
    decay: Literal["linear", "1-sqrt"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        defaults = _DEFAULTS.get(str(data.get("kind")), {})
        given = {name: value for name, value in data.items() if name not in defaults or value is not None}
        no_warmup = data.get("kind") == "plateau" or data.get("warmup_ratio") is not None
        return {"lr": None} | ({"warmup": 0} if no_warmup else {}) | defaults | given

    @field_validator("warmup", "warmup_ratio", "lr", *_OPTIONAL)
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:
        kind, name = info.data.get("kind"), str(info.field_name)
        if kind is None:  # itself wrong, and told so
            return value
        given = value is not None and (name, value) != ("warmup", 0)
        unused = name not in _DEFAULTS.get(kind, {}) if name in _OPTIONAL else {"plateau": "warmup", "noam": "lr"}.get(kind) == name
        if given and (unused or (name == "warmup_ratio" and kind == "plateau")):
            raise ValueError(f"{name} is not used by schedule {kind}")
        if name == "warmup_ratio" and given and info.data.get("warmup"):
            raise ValueError("give one of warmup and warmup_ratio")
        if name == "lr" and not given and not unused:
            raise ValueError(f"lr is needed by schedule {kind}")
        lr = info.data.get("lr")
        if name == "min_lr" and given and lr is not None and value >= lr:
            raise ValueError(f"min_lr is {value:g}; expected less than lr, {lr:g}")
        return value

    @property
    def needs_length(self) -> bool:
        """Whether the rate depends on the number of updates of the phase."""
        return self.kind in ("wsd", "cosine") or self.warmup_ratio is not None

    def rate_after(self, cuts: int) -> float:
        """lr * shrink^cuts, of a plateau."""
        assert self.lr is not None and self.shrink is not None
        return float(self.lr * self.shrink**cuts)

    def ends_after(self, cuts: int) -> bool:
        """Has a plateau's rate fallen under the smallest one after so many cuts?"""
        if self.kind != "plateau":
            return False
        assert self.min_lr is not None
        return self.rate_after(cuts) < self.min_lr * (1 - ROUNDING)

    def cuts_to_end(self) -> int:
        """Cuts that bring a plateau's rate under the smallest one; 0 for other schedules."""
        return 0 if self.kind != "plateau" else next(cuts for cuts in itertools.count(1) if self.ends_after(cuts))

    def summary(self) -> str:
        """The rate in one line."""
        warmup = str(self.warmup) if self.warmup_ratio is None else f"{self.warmup_ratio:.0%}"
        if self.kind == "noam":
            return f"noam x{self.factor:g}, warmup {warmup}"
        if self.kind == "plateau":
            return f"plateau {self.lr:g} x{self.shrink:g} {self.cut}, to {self.min_lr:g}"
        return f"{self.kind} {self.lr:g}, warmup {warmup}"


class Restart(Strict):
    """A second phase: the optimiser's moments and the schedule's clock start again (Wang 2018). One of the two `after` is given."""

    after_steps: Positive | None = None
    after_epochs: Positive | None = None
    schedule: Schedule
    batch: BatchSpec | None = None

    @model_validator(mode="after")
    def _one(self) -> Restart:
        if (self.after_steps is None) == (self.after_epochs is None):
            raise ValueError("give one of after_steps and after_epochs")
        return self


BETAS = [0.9, 0.98]
EPS = 1e-9
_MOMENTUM = {"nag": 0.99, "muon": 0.95}


class OptimSpec(Strict):
    """`adam` (Kingma and Ba 2015): betas, eps. `nag` (Nesterov 1983, as fairseq has it): momentum, 0.99 where none is given.

    `muon` (Jordan 2024): momentum 0.95 with orthogonalised updates for the matrices between embeddings and output, scaled to the size of
    Adam's (Liu et al. 2025), so that one learning rate serves both; Adam for all other parameters.
    weight_decay: decoupled (Loshchilov and Hutter 2019), of parameters with two or more dimensions.
    ema: decay of an exponential moving average of the weights (`decode.checkpoint: ema`); after update t it is at most (1 + t) / (10 + t).
    """

    kind: Literal["adam", "nag", "muon"] = "adam"
    betas: Annotated[list[Probability], Field(min_length=2, max_length=2)] = BETAS
    eps: Annotated[float, Field(gt=0)] = EPS
    momentum: Annotated[float, Field(gt=0, lt=1)] | None = None
    weight_decay: Annotated[float, Field(ge=0, lt=1)] = 0.0
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None
    schedule: Schedule = Schedule()
    restart: Restart | None = None
    clip_norm: Annotated[float, Field(ge=0)] = 0.0
    label_smoothing: Probability = 0.0

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.get("kind", "adam") == "adam" and data.get("name") == "adam":  # the word of older files
            data = {name: value for name, value in data.items() if name != "name"}
        if data.get("kind") in _MOMENTUM and data.get("momentum") is None:
            data = data | {"momentum": _MOMENTUM[data["kind"]]}
        return data

    @field_validator("betas", "eps", "momentum")
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:
        options: dict[str, dict[str, Any]] = {"adam": {"momentum": None}, "nag": {"betas": BETAS, "eps": EPS}}
        unset = options.get(info.data.get("kind", ""), {})
        if value != unset.get(str(info.field_name), value):
            raise ValueError(f"{info.field_name} is not used by optimiser {info.data['kind']}")
        return value

    def summary(self) -> str:
        """Optimiser and rate in one line."""
        first = f"{self.kind}, {self.schedule.summary()}"
        return first if self.restart is None else f"{first}, then {self.restart.schedule.summary()}"
