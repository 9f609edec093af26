"""Parameters of a row without its data and without memory: the model is built on the meta device."""

from __future__ import annotations

from typing import Any

from orchestrator.keys import digest
from orchestrator.spec import RunSpec

_counts: dict[str, int] = {}


def params(spec: RunSpec, src_vocab: int, tgt_vocab: int) -> int:
    """Distinct trainable numbers; counted once for each distinct model and vocabulary."""
    model: dict[str, Any] = spec.model.model_dump()
    key = digest([model, src_vocab, tgt_vocab])
    if key not in _counts:
        import torch

        from models import build, count_parameters

        with torch.device("meta"):
            _counts[key] = count_parameters(build(model, src_vocab, tgt_vocab))
    return _counts[key]


def declared(spec: RunSpec) -> tuple[int, int] | None:
    """The vocabulary sizes that the spec declares, if it declares both."""
    vocab = spec.data.vocab
    return None if vocab.src is None or vocab.tgt is None else (vocab.src, vocab.tgt)
