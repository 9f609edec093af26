"""The schema of an optimisation: batches, the optimiser, its rate and its second phase."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from orchestrator.specs.base import Natural, Positive, Probability, Strict


class BatchSpec(Strict):
    """Size of one global micro-batch. `tokens`: padded target tokens at most; `sentences`: pairs."""

    unit: Literal["tokens", "sentences"] = "tokens"
    size: Positive = 4096
    accumulate: Positive = 1


_PLATEAU: dict[str, Any] = {"shrink": 0.1, "min_lr": 1e-4, "cut": "each_rise"}
"""Options that plateau alone has, and their defaults there."""

ROUNDING = 1e-9
"""Relative: 0.1 cut three times is not under 1e-4."""


class Schedule(Strict):
    """`noam`: factor * d_model^-0.5 * min(t^-0.5, t * warmup^-1.5); `inverse-sqrt`: linear to lr, then lr * sqrt(warmup/t);
    `fixed`: lr (after a linear warm-up where warmup > 0); `plateau`: lr * shrink^(cuts so far), without warm-up.

    plateau (Shen et al. 2018, section 4.3): `cut` each_rise cuts the rate at each validation whose nll is above that of the validation
    before it; after_first_rise at the first such validation and at every one after it. The training ends where the rate falls under
    `min_lr`. The paper's validations are its epochs: `train.validate_every: epoch`.
    """

    kind: Literal["noam", "inverse-sqrt", "fixed", "plateau"] = "noam"
    warmup: Natural = 4000
    factor: Annotated[float, Field(gt=0)] = 1.0
    lr: Annotated[float, Field(gt=0)] | None = None
    shrink: Annotated[float, Field(gt=0, lt=1)] | None = None
    min_lr: Annotated[float, Field(gt=0)] | None = None
    cut: Literal["each_rise", "after_first_rise"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.get("kind") != "plateau":
            return {"lr": None} | data
        given = {name: value for name, value in data.items() if name not in _PLATEAU or value is not None}
        return {"lr": None, "warmup": 0} | _PLATEAU | given

    @field_validator("warmup", "lr", "shrink", "min_lr", "cut")
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:
        kind, name = info.data.get("kind"), str(info.field_name)
        if kind is None:  # itself wrong, and told so
            return value
        given = value is not None and (name, value) != ("warmup", 0)
        unused = {"warmup": kind == "plateau", "lr": kind == "noam"}.get(name, kind != "plateau")
        if given and unused:
            raise ValueError(f"{name} is not used by schedule {kind}")
        if name == "lr" and not given and not unused:
            raise ValueError(f"lr is needed by schedule {kind}")
        lr = info.data.get("lr")
        if name == "min_lr" and given and lr is not None and value >= lr:
            raise ValueError(f"min_lr is {value:g}; expected less than lr, {lr:g}")
        return value

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
        if self.kind == "noam":
            return f"noam x{self.factor:g}, warmup {self.warmup}"
        if self.kind == "plateau":
            return f"plateau {self.lr:g} x{self.shrink:g} {self.cut}, to {self.min_lr:g}"
        return f"{self.kind} {self.lr:g}, warmup {self.warmup}"


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
MOMENTUM = 0.99


class OptimSpec(Strict):
    """`adam` (Kingma and Ba 2015): betas, eps. `nag` (Nesterov 1983, as fairseq has it): momentum, 0.99 where none is given."""

    kind: Literal["adam", "nag"] = "adam"
    betas: Annotated[list[Probability], Field(min_length=2, max_length=2)] = BETAS
    eps: Annotated[float, Field(gt=0)] = EPS
    momentum: Annotated[float, Field(gt=0, lt=1)] | None = None
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
        if data.get("kind") == "nag" and data.get("momentum") is None:
            data = data | {"momentum": MOMENTUM}
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
