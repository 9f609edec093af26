"""The nll of references, sentence by sentence, against the model's own probabilities."""

import pytest
import torch

from models.transformer import build
from orchestrator.decoding import forced
from orchestrator.decoding.forced import reference_nll
from tests.unit.training.support import SPEC

SOURCES = [[5, 6, 7], [8], [9, 10, 11, 12, 5, 6], [7, 7], []]
TARGETS = [[4, 5], [6, 7, 8, 9, 10], [], [11], []]


def test_each_sentence_has_the_sum_of_its_tokens_nll(monkeypatch):
    """None where a sentence lies beyond the learned positions."""
    model = build(SPEC.model.model_dump(), 30, 30, 1).eval()
    found = reference_nll(model, SOURCES, TARGETS)
    for source, target, (nll, count) in zip(SOURCES, TARGETS, found, strict=True):
        with torch.no_grad():
            logits = model.logits(model(torch.tensor([[*source, 3]]), torch.tensor([[2, *target]])).hidden)[0]
        alone = -logits.log_softmax(-1)[range(len(target) + 1), [*target, 3]].sum()
        assert count == len(target) + 1 and nll == pytest.approx(float(alone), rel=1e-4)
    monkeypatch.setattr(forced, "BATCH_TOKENS", 1)
    assert [each[0] for each in reference_nll(model, SOURCES, TARGETS)] == pytest.approx([each[0] for each in found], rel=1e-4)
    monkeypatch.setattr(model, "max_positions", 6, raising=False)
    assert reference_nll(model, SOURCES, TARGETS) is None and reference_nll(model, SOURCES[:2], TARGETS[:2]) is not None
