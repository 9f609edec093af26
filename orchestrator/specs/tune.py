"""Schema of the section `tune`: the search of every arm of a table, and the seeds that judge its best configuration.

An arm is a row: a variant, a baseline or a control. All arms have the same space, the same draws and the same number of trials.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from orchestrator.specs.base import Bounds, Natural, Rungs, Seeds, Strict

DIGITS = 4
"""Significant digits of drawn numbers. Rounding makes the draws equal on every processor."""
FIXED = ("data", "decode", "score", "train.max_steps", "train.max_epochs")
"""Keys that all trials share: the validation set, decoding and scoring, and the budget."""
EDGE = 0.1
"""Share of a range at either end that counts as its edge."""


class Draw(Strict):
    """How one value of a trial is drawn: exactly one of these keys, such as {loguniform: [0.5, 2.0]}."""

    choice: Annotated[list[bool | int | float | str | None], Field(min_length=2)] | None = None
    """One of these values."""
    uniform: Bounds | None = None
    """A number between two bounds."""
    loguniform: Bounds | None = None
    """A number between two positive bounds, uniform in its logarithm."""
    factor: "Draw | None" = None
    """A draw that multiplies the row's own value."""

    @model_validator(mode="after")
    def _one(self) -> "Draw":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"found {', '.join(given) or 'nothing'}; expected one of {', '.join(type(self).model_fields)}")
        if self.loguniform is not None and self.loguniform[0] <= 0:
            raise ValueError(f"loguniform is {self.loguniform}; expected positive bounds")
        if self.factor is not None and self.factor.factor is not None:
            raise ValueError("factor holds another factor; expected choice, uniform or loguniform")
        return self

    def value(self, point: float) -> Any:
        """Returns the value at a point of [0, 1). Numbers of ranges are rounded to DIGITS significant digits."""
        if self.factor is not None:
            return self.factor.value(point)
        if self.choice is not None:
            return self.choice[min(int(point * len(self.choice)), len(self.choice) - 1)]
        low, high = self.uniform or self.loguniform or [0.0, 1.0]
        return rounded(low * (high / low) ** point if self.loguniform else low + (high - low) * point)

    def edge(self, value: Any) -> str | None:
        """Returns `lowest` or `highest` if a value lies on the edge of the range, or of a choice of at least three numbers; else None.

        0 is no edge, because a search cannot draw a smaller value."""
        if self.factor is not None:
            return self.factor.edge(value)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value == 0:
            return None
        if self.choice is not None:
            numbers = sorted(v for v in self.choice if isinstance(v, (int, float)) and not isinstance(v, bool))
            ends = (numbers[0], numbers[-1]) if len(numbers) > 2 else (-math.inf, math.inf)
            return "lowest" if value <= ends[0] else "highest" if value >= ends[1] else None
        low, high = self.uniform or self.loguniform or [0.0, 1.0]
        share = math.log(value / low) / math.log(high / low) if self.loguniform and value > 0 else (value - low) / (high - low)
        return "lowest" if share < EDGE else "highest" if share > 1 - EDGE else None


def rounded(value: float) -> float:
    """Returns a number with DIGITS significant digits."""
    return float(f"{value:.{DIGITS}g}")


class TuneSeeds(Strict):
    """Seeds of a search and of the runs that judge its results."""

    search: Seeds = Field(default_factory=lambda: [101])
    """Seeds of every trial. The mean over them decides the choice."""
    judge: Seeds = Field(default_factory=lambda: [1, 2, 3])
    """Seeds with which each arm's best configuration is trained and judged; none may be a search seed."""

    @model_validator(mode="after")
    def _apart(self) -> "TuneSeeds":
        if both := sorted(set(self.search) & set(self.judge)):
            raise ValueError(f"judge {both} are seeds of the search; expected others: each configuration was chosen by those")
        return self


class Stop(Strict):
    """Successive halving within each arm: at each rung, all its trials are compared and the weaker ones end."""

    rungs: Annotated[Rungs, Field(min_length=1)]
    """Updates at which the trials of an arm are compared, increasing."""
    reduction_factor: Annotated[float, Field(gt=1)] = 2.0
    """The best 1 / reduction_factor of an arm's trials continue, at least one."""


class TuneSpec(Strict):
    """The search of every arm of the table. Its first trial is the row as written."""

    trials: Annotated[int, Field(ge=2, le=1000)] = 8
    """Number of trials per arm."""
    space: dict[str, Draw] = Field(default_factory=dict)
    """Key of the spec -> how it is drawn, in every arm. One of space and own is needed."""
    own: dict[str, Draw] = Field(default_factory=dict)
    """The same, only for arms that have the key: a key of the spec, or a component option such as `rate` (one value per arm)."""
    select: Literal["valid/nll", "valid/accuracy"] = "valid/nll"
    """Metric of the validation set that chooses the best trial. Searches never read a test set."""
    seeds: TuneSeeds = TuneSeeds()
    """Seeds of the search, and seeds that judge the best configuration."""
    stop: Stop | None = None
    """Which trials end early; null: none."""
    sampler: Literal["sobol", "random"] = "sobol"
    """How points are drawn: the same for every arm."""
    draw_seed: Natural = 1
    """Seed of the points."""

    @model_validator(mode="after")
    def _sound(self) -> "TuneSpec":
        if not self.space and not self.own:
            raise ValueError("space is missing; expected keys to draw, such as {optim.schedule.lr: {factor: {loguniform: [0.5, 2.0]}}}")
        if both := sorted(set(self.space) & set(self.own)):
            raise ValueError(f"own has {both[0]}, which space has too; expected it in one of them")
        for name in [*self.space, *self.own]:
            if name.partition(".")[0] in FIXED or name in FIXED:
                raise ValueError(f"found the key {name}, which a search cannot compare; expected none of {', '.join(FIXED)}")
        return self

    @property
    def draws(self) -> dict[str, Draw]:
        """Returns all draws in a fixed order. Each is one dimension of the points."""
        return {name: (self.space | self.own)[name] for name in [*sorted(self.space), *sorted(self.own)]}

    def trainings(self, steps: int | None) -> float:
        """Returns the cost of an arm's search in full trainings of `steps` updates; `steps` None: an upper bound."""
        going, done, spent = float(self.trials), 0, 0.0
        for rung in [] if self.stop is None or steps is None else [rung for rung in self.stop.rungs if rung < steps]:
            spent += going * (rung - done)
            kept, done = math.ceil(going / self.stop.reduction_factor) if self.stop else going, rung
            going = min(going, kept + 1)  # the row as written always continues
        return len(self.seeds.search) * (going if steps is None else (spent + going * (steps - done)) / steps)
