"""Strict schema of a run: one resolved row.

Every field is part of a run's identity unless stated otherwise; `ledger.keys` hashes these fields. Unknown keys, wrong types and
out-of-range numbers are errors (pydantic strict mode: "3" is not an int, 3 is a valid float). The text below a field is its description
in `nmt-ablate schema` and docs/spec.md (`specs.field_docs`).
"""

from __future__ import annotations

from models.config import Component
from orchestrator.specs.base import Natural, Positive, Probability, Strict
from orchestrator.specs.data import DataSpec, Subword, Truncate, VocabSizes
from orchestrator.specs.model import DecoderSpec, DropoutSpec, EncoderSpec, ModelSpec
from orchestrator.specs.optim import BatchSpec, OptimSpec, Restart, Schedule
from orchestrator.specs.search import DecodeSpec, LengthPenalty, ScoreSpec
from orchestrator.specs.train import Every, TrainSpec

__all__ = [
    "BatchSpec",
    "Component",
    "DataSpec",
    "DecodeSpec",
    "DecoderSpec",
    "DropoutSpec",
    "EncoderSpec",
    "Every",
    "LengthPenalty",
    "ModelSpec",
    "Natural",
    "OptimSpec",
    "Positive",
    "Probability",
    "Restart",
    "RunSpec",
    "Schedule",
    "ScoreSpec",
    "Strict",
    "Subword",
    "TrainSpec",
    "Truncate",
    "VocabSizes",
]


class RunSpec(Strict):
    """One training, decoding and scoring: everything that determines the number in a table's cell."""

    data: DataSpec
    """The corpus and its preprocessing."""
    batch: BatchSpec = BatchSpec()
    """Size of the batches."""
    model: ModelSpec = ModelSpec()
    """The network."""
    optim: OptimSpec = OptimSpec()
    """The optimiser and its learning-rate schedule."""
    train: TrainSpec
    """Length and bookkeeping of the training."""
    decode: DecodeSpec = DecodeSpec()
    """Checkpoint and search."""
    score: ScoreSpec = ScoreSpec()
    """Test set and metric."""
    seed: Natural = 1
    """Random seed of initial values, order of the data and dropout."""
    init_from: str | None = None
    """Address of the row whose trained weights initialise this one."""

    @property
    def search(self) -> DecodeSpec:
        """`decode`, with the beam size of `score` if it gives one."""
        beam = self.score.beam_size
        return self.decode if beam is None else self.decode.model_copy(update={"beam_size": beam})
