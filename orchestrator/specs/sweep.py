"""Schema of the section `sweep`: seeds, scheduler and resources of a table's runs."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from orchestrator.specs import yaml_file
from orchestrator.specs.base import Natural, Positive, Rungs, Seed, Seeds, Strict
from orchestrator.specs.messages import valid
from orchestrator.specs.positions import Position, describe, shown

MAX_SEEDS = 1000
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_WORD = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
Word = Annotated[str, Field(pattern=f"^{_WORD}$")]
"""A label value of Kubernetes and Ray."""
Label = Annotated[str, Field(pattern=f"^([A-Za-z0-9.-]+/)?{_WORD}$")]
Words = Annotated[
    list[Word], Field(min_length=1), BeforeValidator(lambda value: [value] if isinstance(value, str) else value, list[str] | str)
]


LARGER_IS_BETTER = ("valid/accuracy", "valid/bleu")
"""Metrics of the validation set of which the larger value is better."""


class Scheduler(Strict):
    """How a sweep decides which runs continue."""

    kind: Literal["asha", "fifo"] = "asha"
    """asha compares a run at each rung with runs that reached it before, and stops weaker ones. fifo gives all runs their full budget."""
    metric: Literal["valid/nll", "valid/ppl", "valid/accuracy", "valid/bleu"] = "valid/nll"
    """Metric of the validation set by which runs are compared: lower nll and ppl, higher accuracy and bleu are better."""
    rungs: Rungs = Field(default_factory=list)
    """Updates at which asha compares runs, increasing."""
    reduction_factor: Annotated[float, Field(gt=1)] = 2.0
    """A run continues after a rung if it is among the best 1 / reduction_factor there."""
    shuffle_seed: Natural = 0
    """Seed of the order in which asha starts the rows that are not pinned."""

    @model_validator(mode="after")
    def _sound(self) -> "Scheduler":
        if self.kind == "asha" and not self.rungs:
            raise ValueError("rungs are missing; expected increasing steps such as [200, 400]")
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
    """Main memory: auto (the estimate, if runs share a machine), none (no request), or a size such as 12G."""
    accelerator_type: Word | None = None
    """On a cluster: only nodes with this GPU, by Ray's name, such as A100 or H100."""
    labels: dict[Label, Words] = Field(default_factory=dict)
    """On a cluster: only nodes with these labels, each with one value or one of a list, such as {zone: [a, b]}."""

    @property
    def selection(self) -> str:
        """Returns the conditions on nodes, `accelerator_type=A100, zone=a or b`; empty if runs may use all nodes."""
        wanted = {"accelerator_type": [self.accelerator_type] if self.accelerator_type else [], **self.labels}
        return ", ".join(f"{name}={' or '.join(values)}" for name, values in wanted.items() if values)

    def selects(self, resources: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
        """Returns whether runs may use a node with these resources and labels, by Ray's names."""
        kind = self.accelerator_type is None or f"accelerator_type:{self.accelerator_type}" in resources
        return kind and all(labels.get(name) in values for name, values in self.labels.items())

    @property
    def selector(self) -> dict[str, str]:
        """Returns `labels` as a label selector of Ray."""
        return {name: f"in({','.join(values)})" for name, values in self.labels.items()}

    @field_validator("gpu")
    @classmethod
    def _share(cls, value: Any) -> Any:
        """Refuses other shares than a fraction of one GPU or a whole number of GPUs, which Ray needs."""
        if value != "auto" and value > 1 and value != int(value):
            raise ValueError(f"gpu is {value}; expected auto, a part of a GPU such as 0.25, or whole ones")
        return value

    @field_validator("memory")
    @classmethod
    def _size(cls, value: str) -> str:
        if value not in ("auto", "none"):
            size(value)
        return value


def size(text: str) -> float:
    """Parses a size in bytes, `12G` -> 12e9. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?)", text)
    value = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not 0 < value < 1e18:
        raise ValueError(f"memory is {describe(text)}; expected auto, none or a size such as 12G")
    return value


def parse_resources(text: str | None) -> dict[str, Any]:
    """Parses the option `--resources`: `gpu=0.5,memory=12G` -> {"gpu": 0.5, "memory": "12G"}. Raises UserError for anything malformed."""
    document = yaml_file.parse(f"{{{(text or '').replace('=', ': ')}}}", "--resources")
    document.home, document.positions = Position(f"--resources {shown(text or '')}", ()), {}
    return valid(document, Resources).model_dump(exclude_unset=True)


class SweepSpec(Strict):
    """How a table is run."""

    seeds: Annotated[Seeds, BeforeValidator(_counted, json_schema_input_type=Annotated[int, Field(ge=1, le=MAX_SEEDS)] | list[Seed])] = (
        Field(default_factory=lambda: [1])
    )
    """Seeds of every row: a list, or a number N for the seeds 1 to N."""
    concurrency: Positive | None = None
    """Maximum number of runs at the same time; null: as many as the resources allow."""
    resources: Resources = Resources()
    """Resources of each worker of each run."""
    scheduler: Scheduler = Scheduler(kind="fifo")
    """How the sweep decides which runs continue; without a scheduler every run has its full budget."""
