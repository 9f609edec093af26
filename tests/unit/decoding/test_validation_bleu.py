"""BLEU at a rung: what is translated, how, and scored against which text."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from orchestrator.decoding import validation_bleu
from orchestrator.specs.schema import RunSpec


@pytest.mark.parametrize("training", [True, False])
def test_it_is_of_greedy_translations_in_fp32_of_the_validation_set(monkeypatch: pytest.MonkeyPatch, training: bool) -> None:
    asked: dict[str, Any] = {}
    decode = {"beam_size": 5, "precision": "int8", "length_penalty": {"alpha": "tuned", "candidates": [0.0, 1.0]}, "max_extra": 7}
    spec = RunSpec.model_validate({"data": {"corpus": "toy"}, "train": {"max_steps": 4}, "decode": decode, "score": {"test": "test"}})
    prepared: Any = SimpleNamespace(
        sources=lambda split: f"sources of {split}", encode=lambda lines: f"ids of {lines}", decode=str, decode_tokens=str
    )

    def translated(model: Any, sources: Any, search: Any) -> Any:
        asked.update(sources=sources, search=search, training=model.training)
        return [[SimpleNamespace(ids=[1])]]

    def scored(texts: Any, tokens: Any, prepared: Any, split: str, how: Any) -> dict[str, float]:
        asked.update(split=split, how=how)
        return {"bleu": 12.5}

    monkeypatch.setattr(validation_bleu, "decode_corpus", translated)
    monkeypatch.setattr(validation_bleu, "score", scored)
    model = torch.nn.Linear(1, 1).train(training)
    assert validation_bleu.rung_bleu(spec, prepared)(model) == {"valid/bleu": 12.5}
    search = asked["search"]
    assert asked["sources"] == "ids of sources of valid" and asked["split"] == "valid" and asked["how"] == spec.score
    assert (search.beam_size, search.precision, search.length_penalty.alpha, search.max_extra) == (1, "fp32", 0.0, 7)
    assert asked["training"] is False and model.training is training, "as it was before"
