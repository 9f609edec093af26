"""Schema of the section `train`: the length and the bookkeeping of a training."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from orchestrator.specs.base import Count, Natural, Positive, Strict

Every = Positive | Literal["epoch"]
"""An interval: a number of updates, or the end of each epoch."""


class TrainSpec(Strict):
    """Length and bookkeeping of a training.

    Training ends at the first of max_steps, max_epochs, exhausted patience and a plateau's min_lr.
    """

    max_steps: Positive | None = None
    """Updates after which training ends. One of max_steps and max_epochs is needed."""
    max_epochs: Positive | None = None
    """Epochs after which training ends. One of max_steps and max_epochs is needed."""
    validate_every: Every = 1000
    """Updates from one validation to the next; epoch: at the end of each."""
    checkpoint_every: Every = 1000
    """Updates from one checkpoint to the next, from which an interrupted training goes on; epoch: at the end of each."""
    snapshots: Natural = 0
    """Number of latest weight-only snapshots to retain for averaging (`decode.checkpoint: average`)."""
    snapshot_every: Every | None = None
    """Updates from one snapshot to the next; epoch: at the end of each; null: as checkpoint_every."""
    patience: Positive | None = None
    """Validations in a row without an improvement of the validation nll after which training ends; null: there may be any number."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Numbers of the network's computations; weights and the optimiser stay in fp32."""
    threads: Count = 1
    """Threads of a CPU, of each worker."""
    compile: bool = False
    """Whether torch.compile compiles the layers; what stands between them runs as it is."""
    log_gradient_norms: Natural = 0
    """Updates from one logging of each encoder layer's gradient norm to the next; 0: off. It is no part of a run's key."""
    recompute: Literal["none", "layers"] = "none"
    """layers: activations of layers are computed again in the backward pass, which saves memory; bitwise equal to none."""

    @model_validator(mode="after")
    def _recompute(self) -> TrainSpec:
        if self.compile and self.recompute != "none":
            raise ValueError(f"recompute is {self.recompute}; expected none with compile, which decides itself what is kept")
        return self

    @model_validator(mode="after")
    def _end(self) -> TrainSpec:
        if self.max_steps is None and self.max_epochs is None:
            raise ValueError("one of max_steps and max_epochs is needed")
        return self
