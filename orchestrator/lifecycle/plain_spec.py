"""The `decode` section of an exported config as attributes. It needs no schema because it was validated before the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class LengthPenalty(SimpleNamespace):
    """Fields `kind` and `alpha` (see `orchestrator.specs.schema`)."""


class DecodeSpec(SimpleNamespace):
    """Fields beam_size, length_penalty, max_ratio, ... of the row's spec."""

    @classmethod
    def of(cls, data: dict[str, Any]) -> DecodeSpec:
        return cls(**data | {"length_penalty": LengthPenalty(**data["length_penalty"])})
