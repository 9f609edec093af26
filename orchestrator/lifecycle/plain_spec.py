"""The `decode` section of a config as attributes. An exported row needs no schema: it was validated when it ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class LengthPenalty(SimpleNamespace):
    """kind, alpha (see `orchestrator.specs.schema`)."""


class DecodeSpec(SimpleNamespace):
    """beam_size, length_penalty, max_ratio, ... as the row's spec has them."""

    @classmethod
    def of(cls, data: dict[str, Any]) -> DecodeSpec:
        return cls(**data | {"length_penalty": LengthPenalty(**data["length_penalty"])})
