"""Schema of the section `sweep`: seeds, scheduler and resources of a table's runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from orchestrator.errors import UserError
from orchestrator.specs.base import Natural, Positive, Strict
from orchestrator.specs.positions import describe, nearest, shown

MAX_SEEDS = 1000
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Scheduler(Strict):
    """Which runs go on."""

    kind: Literal["asha", "fifo"] = "asha"
    """asha compares a run at each rung with the runs that reached it before, and stops the weaker ones; fifo gives every run its full
    budget."""
    metric: Literal["valid/nll", "valid/ppl", "valid/accuracy", "valid/bleu"] = "valid/nll"
    """Metric of the validation set by which runs are compared."""
    mode: Literal["min", "max"] = "min"
    """Which value of the metric is better: min for nll and ppl, max for accuracy and bleu."""
    rungs: list[Positive] = Field(default_factory=list)
    """Updates at which asha compares runs, increasing."""
    reduction_factor: Annotated[float, Field(gt=1)] = 2.0
    """A run goes on from a rung if it is among the best 1 / reduction_factor there."""
    shuffle_seed: Natural = 0
    """Seed of the order in which asha starts the rows that are not pinned."""
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How much worse than the cutoff, in the metric's units, a run may be at a rung and go on."""

    @model_validator(mode="after")
    def _sound(self) -> Scheduler:
        if self.kind == "asha" and not self.rungs:
            raise ValueError("rungs are missing; expected increasing steps such as [200, 400]")
        if any(a >= b for a, b in zip(self.rungs, self.rungs[1:], strict=False)):
            raise ValueError(f"rungs {self.rungs} do not increase")
        wanted = "max" if self.metric in ("valid/accuracy", "valid/bleu") else "min"
        if self.mode != wanted:
            raise ValueError(f"mode {self.mode} keeps the worst by {self.metric}; expected {wanted}")
        return self


def _counted(seeds: Any) -> Any:
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= MAX_SEEDS:
            raise ValueError(f"seeds is {seeds}; expected how many, from 1 to {MAX_SEEDS}, or a list such as [1, 2]")
        return list(range(1, seeds + 1))
    return seeds


class Resources(Strict):
    """Resources of each worker of each run, which do not affect results (docs/sweeps.md)."""

    gpu: Annotated[float, Field(ge=0.01, le=64)] | Literal["auto"] = 1.0
    """Number of GPUs, or a fraction of one; auto: as many runs per GPU as fit by estimated memory."""
    memory: str = "auto"
    """Main memory: auto (the estimate, if runs share a machine), none (not asked for), or a size such as 12G."""

    @field_validator("gpu")
    @classmethod
    def _share(cls, value: Any) -> Any:
        """Ray takes a fraction of one GPU, or a whole number of GPUs."""
        if value != "auto" and value > 1 and value != int(value):
            raise ValueError(f"gpu is {value}; {_EXPECTED['gpu']}")
        return value

    @field_validator("memory")
    @classmethod
    def _size(cls, value: str) -> str:
        try:
            return value if value in ("auto", "none") or size(value) else ""
        except ValueError:
            raise ValueError(f"memory is {describe(value)}; {_EXPECTED['memory']}") from None


_EXPECTED = {"gpu": "expected auto, a part of a GPU such as 0.25, or whole ones", "memory": "expected auto, none or a size such as 12G"}


def size(text: str) -> float:
    """Parses a size in bytes, `12G` -> 12e9. Raises ValueError for anything else."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "")
    value = float(number) * _UNITS.get(unit, 1.0)
    if not 0 < value < 1e18:
        raise ValueError(f"{text!r} is no size")
    return value


def parse_resources(text: str | None) -> dict[str, Any]:
    """Parses the option `--resources`: `gpu=0.5,memory=12G` -> {"gpu": 0.5, "memory": "12G"}. Raises UserError for anything malformed."""
    found: dict[str, Any] = {}
    problems = []
    for part in [] if text is None else text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _EXPECTED:
            problems.append(f"--resources {shown(part)}: unknown key; {nearest(name, _EXPECTED)}")
            continue
        try:
            given = float(value) if name == "gpu" and value != "auto" else value
            found[name] = getattr(Resources.model_validate({name: given}), name)
        except ValueError:
            problems.append(f"--resources {shown(part)}: {_EXPECTED[name]}")
    if problems:
        raise UserError(*problems)
    return found


class SweepSpec(Strict):
    """How a table is run."""

    seeds: Annotated[list[Seed], Field(min_length=1), BeforeValidator(_counted, json_schema_input_type=Positive | list[Seed])] = Field(
        default_factory=lambda: [1]
    )
    """Seeds of every row: a list, or a number N for 1 to N."""
    concurrency: Positive | None = None
    """Most runs at the same time; null: as many as the resources allow."""
    resources: Resources = Resources()
    """Resources of each worker of each run."""
    scheduler: Scheduler = Scheduler(kind="fifo")
    """Which runs go on; without it every run has its full budget."""

    @model_validator(mode="after")
    def _distinct(self) -> SweepSpec:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} are not distinct")
        return self
