"""BLEU of the validation set at rungs, for schedulers that compare runs by BLEU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from orchestrator.data.prepare import Prepared
from orchestrator.decoding.length_penalty import VALID, with_alpha
from orchestrator.decoding.translate import decode_corpus
from orchestrator.scoring.scores import score
from orchestrator.specs.schema import RunSpec

NAME = "valid/bleu"

RungMetrics = Callable[[nn.Module], dict[str, float]]
"""Computes metrics of the model at a rung, without changes to weights, random state or training mode."""


def rung_bleu(spec: RunSpec, prepared: Prepared) -> RungMetrics:
    """Returns a function of the model that computes `valid/bleu` in percent by the row's metric, from fp32 greedy search for speed."""
    sources = prepared.encode(prepared.sources(VALID))
    greedy = spec.decode.model_copy(update={"beam_size": 1, "precision": "fp32"})
    if greedy.length_penalty.alpha == "tuned":  # the penalty has no effect on greedy search
        greedy = with_alpha(greedy, 0.0)

    def measure(model: nn.Module) -> dict[str, float]:
        training = model.training
        model.eval()
        try:
            ids = [hypotheses[0].ids for hypotheses in decode_corpus(model, sources, greedy)]
        finally:
            model.train(training)
        scored: dict[str, Any] = score(prepared.decode(ids), prepared.decode_tokens(ids), prepared, VALID, spec.score)
        return {NAME: float(scored["bleu"])}

    return measure
