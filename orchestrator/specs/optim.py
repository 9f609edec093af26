"""Schema of the optimisation: batches, optimiser, learning-rate schedule and second phase."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from models.config import Probability
from orchestrator.specs.base import Natural, Positive, Strict


class BatchSpec(Strict):
    """Size of one global micro-batch, which the workers of a run share."""

    unit: Literal["tokens", "sentences"] = "tokens"
    """What `size` counts: tokens, padding included, of the side with the longer longest sentence; or sentence pairs."""
    size: Positive = 4096
    """Maximum number of tokens, or number of sentence pairs, of a micro-batch."""
    accumulate: Positive = 1
    """Number of micro-batches per update."""
    pad_to: Positive = 1
    """Minimum length of source and target of a micro-batch; shorter ones are padded. On CPUs with AVX-512, 16 makes training on short
    sentences faster, because softmax over fewer numbers is slow."""


_DEFAULTS = {"plateau": {"shrink": 0.1, "min_lr": 1e-4, "cut": "each_rise"}, "wsd": {"cooldown": 0.2, "decay": "1-sqrt"}}
"""Schedule -> defaults of the options that only some schedules have."""
_WARM = ("warmup", "warmup_ratio", "lr")
_USED: dict[str, tuple[str, ...]] = {
    "noam": ("warmup", "warmup_ratio", "factor"),
    "inverse-sqrt": _WARM,
    "fixed": _WARM,
    "plateau": ("lr", "shrink", "min_lr", "cut"),
    "wsd": (*_WARM, "min_lr", "cooldown", "decay"),
    "cosine": (*_WARM, "min_lr"),
}

ROUNDING = 1e-9
"""Relative tolerance, so that 0.1 multiplied three times by 0.1 does not count as less than 1e-4."""


class Schedule(Strict):
    """Learning rate of update t of a phase of T updates, after a linear warm-up of w updates.

    T is the number of updates in the phase: exact if max_steps ends it, otherwise estimated from the batches of the first epoch.

    plateau (Shen et al. 2018, section 4.3) ends training when the rate falls below `min_lr`. The paper has `train.validate_every: epoch`.
    """

    kind: Literal["noam", "inverse-sqrt", "fixed", "plateau", "wsd", "cosine"] = "noam"
    """noam: factor * d_model^-0.5 * min(t^-0.5, t * w^-1.5). inverse-sqrt: lr * sqrt(w / t). fixed: lr. plateau: lr * shrink^(cuts so far),
    without warm-up, until the rate is below `min_lr`. wsd (warm-up, stable, decay; Hu et al. 2024): lr, then a decay towards `min_lr`.
    cosine (Loshchilov and Hutter 2017): half a cosine from lr towards `min_lr` over the updates after the warm-up."""
    warmup: Natural = 4000
    """w, in updates; 0 with plateau or with warmup_ratio."""
    warmup_ratio: Annotated[float, Field(gt=0, lt=1)] | None = None
    """w as a share of the phase's updates T; null: w is warmup."""
    factor: Annotated[float, Field(gt=0)] = 1.0
    """Factor of noam's rate."""
    lr: Annotated[float, Field(gt=0)] | None = None
    """Learning rate after the warm-up; required by all kinds except noam, which does not have it."""
    shrink: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Factor of the rate at each cut of a plateau, 0.1 by default."""
    min_lr: Annotated[float, Field(gt=0)] | None = None
    """wsd and cosine: the rate that the decay would reach at update T + 1 (null: 0); the rate of the last update is higher. plateau: the
    rate below which training ends, 1e-4 by default."""
    cut: Literal["each_rise", "after_first_rise"] | None = None
    """When a plateau's rate is cut. each_rise (default): at each validation whose nll is higher than at the previous one; after_first_rise:
    at the first such validation and at every later one."""
    cooldown: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of T at the end over which wsd decays; 0.2 by default."""
    decay: Literal["linear", "1-sqrt"] | None = None
    """Form of wsd's decay, x from 0 to 1: linear: 1 - x; 1-sqrt (default): 1 - sqrt(x) (Haegele et al. 2024)."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        defaults: dict[str, Any] = _DEFAULTS.get(str(data.get("kind")), {})
        given = {name: value for name, value in data.items() if name not in defaults or value is not None}
        no_warmup = data.get("kind") == "plateau" or data.get("warmup_ratio") is not None
        return {"lr": None} | ({"warmup": 0} if no_warmup else {}) | defaults | given

    @field_validator("warmup", "warmup_ratio", "factor", "lr", "shrink", "min_lr", "cut", "cooldown", "decay")
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:
        kind, name = info.data.get("kind"), str(info.field_name)
        if kind is None:  # kind is invalid and already reported
            return value
        given = value is not None and (name, value) not in (("warmup", 0), ("factor", 1.0))
        unused = name not in _USED[kind]
        if given and unused:
            takers = ", ".join(other for other, names in _USED.items() if name in names)
            taken = ", ".join(_USED[kind])
            raise ValueError(f"{name} is not used by schedule {kind}, which takes {taken}; schedule.kind selects one with {name}: {takers}")
        if name == "warmup_ratio" and given and info.data.get("warmup"):
            raise ValueError(f"warmup is {info.data['warmup']}; expected 0 beside warmup_ratio")
        if name == "lr" and not given and not unused:
            raise ValueError(f"lr is needed by schedule {kind}")
        lr = info.data.get("lr")
        if name == "min_lr" and given and lr is not None and value >= lr:
            raise ValueError(f"min_lr is {value:g}; expected less than lr, {lr:g}")
        return value

    @property
    def needs_length(self) -> bool:
        """Returns whether the rate depends on the number of updates in the phase."""
        return self.kind in ("wsd", "cosine") or self.warmup_ratio is not None

    def rate_after(self, cuts: int) -> float:
        assert self.lr is not None and self.shrink is not None
        return float(self.lr * self.shrink**cuts)

    def cuts_to_end(self) -> int:
        """Returns the number of cuts after which a plateau's rate is below `min_lr`; 0 for other schedules."""
        if self.kind != "plateau":
            return 0
        assert self.lr is not None and self.shrink is not None and self.min_lr is not None
        return math.floor(math.log(self.min_lr * (1 - ROUNDING) / self.lr) / math.log(self.shrink)) + 1

    def summary(self) -> str:
        warmup = str(self.warmup) if self.warmup_ratio is None else f"{self.warmup_ratio:.0%}"
        if self.kind == "noam":
            return f"noam x{self.factor:g}, warmup {warmup}"
        if self.kind == "plateau":
            return f"plateau {self.lr:g} x{self.shrink:g} {self.cut}, to {self.min_lr:g}"
        return f"{self.kind} {self.lr:g}, warmup {warmup}"


class Restart(Strict):
    """A second phase, which resets the optimiser's moments and the schedule's step count (Wang 2018)."""

    after_steps: Positive | None = None
    """Updates of the first phase. Exactly one of after_steps and after_epochs is given."""
    after_epochs: Positive | None = None
    """Epochs of the first phase. Exactly one of after_steps and after_epochs is given."""
    schedule: Schedule
    """Learning-rate schedule of the second phase."""
    batch: BatchSpec | None = None
    """Batches of the second phase; null: as in the first phase."""

    @model_validator(mode="after")
    def _one(self) -> "Restart":
        if (self.after_steps is None) == (self.after_epochs is None):
            raise ValueError("give one of after_steps and after_epochs")
        return self


BETAS = [0.9, 0.98]
EPS = 1e-9
_MOMENTUM = {"nag": 0.99, "muon": 0.95}


class OptimSpec(Strict):
    """The optimiser and its schedule."""

    kind: Literal["adam", "nag", "muon"] = "adam"
    """adam (Kingma and Ba 2015). nag (Nesterov 1983, fairseq's form). muon (Jordan 2024): momentum with orthogonalised updates for the
    weights of linear maps except the output layer, and Adam for all other parameters. muon's updates are scaled to the size of Adam's (Liu
    et al. 2025), so both share one learning rate."""
    betas: Annotated[list[Probability], Field(min_length=2, max_length=2)] = BETAS
    """Decay rates of Adam's first and second moments."""
    eps: Annotated[float, Field(gt=0)] = EPS
    """Epsilon that Adam adds to the root of the second moment."""
    momentum: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Momentum of nag and muon; null: 0.99 for nag, 0.95 for muon."""
    weight_decay: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Decoupled weight decay (Loshchilov and Hutter 2019) of adam and muon. Only weights of linear maps decay, not the output layer."""
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Decay of the weights' exponential moving average (`decode.checkpoint: ema`), after update t at most (1 + t) / (10 + t). null: off."""
    schedule: Schedule = Schedule()
    """Learning-rate schedule."""
    restart: Restart | None = None
    """A second phase with its own schedule; null: one phase."""
    clip_norm: Annotated[float, Field(ge=0)] = 0.0
    """Norm to which the gradient of an update is clipped; 0: no clipping."""
    label_smoothing: Probability = 0.0
    """Probability mass that the training loss spreads over the vocabulary."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.get("kind", "adam") == "adam" and data.get("name") == "adam":  # older files write `name: adam`
            data = {name: value for name, value in data.items() if name != "name"}
        kind = data.get("kind")
        if isinstance(kind, str) and kind in _MOMENTUM and data.get("momentum") is None:
            data = data | {"momentum": _MOMENTUM[kind]}
        return data

    @field_validator("betas", "eps", "momentum", "weight_decay")
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:
        options: dict[str, dict[str, Any]] = {"adam": {"momentum": None}, "nag": {"betas": BETAS, "eps": EPS, "weight_decay": 0.0}}
        unset = options.get(info.data.get("kind", ""), {})
        if value != unset.get(str(info.field_name), value):
            raise ValueError(f"{info.field_name} is not used by optimiser {info.data['kind']}")
        return value

    def summary(self) -> str:
        first = f"{self.kind}, {self.schedule.summary()}"
        return first if self.restart is None else f"{first}, then {self.restart.schedule.summary()}"
