"""BLEU of the validation set at a rung, for schedulers that compare runs by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from orchestrator.data.prepare import Prepared
from orchestrator.decoding.length_penalty import VALID, settled
from orchestrator.decoding.translate import decode_corpus
from orchestrator.scoring.scores import score
from orchestrator.specs.schema import RunSpec

NAME = "valid/bleu"

RungMetrics = Callable[[nn.Module], dict[str, float]]
"""Of the model as it stands at a rung; it leaves weights, random numbers and the training mode as they were."""


def rung_bleu(spec: RunSpec, prepared: Prepared) -> RungMetrics:
    """`{valid/bleu}` in percent, by the row's own metric, of greedy translations in fp32: a search is what a rung has no time for."""
    sources = prepared.encode(prepared.sources(VALID))
    greedy = spec.decode.model_copy(update={"beam_size": 1, "precision": "fp32"})
    if greedy.length_penalty.alpha == "tuned":  # a search of one hypothesis has no use for it
        greedy = settled(greedy, {"alpha": 0.0})

    def measured(model: nn.Module) -> dict[str, float]:
        training = model.training
        model.eval()
        try:
            ids = [hypotheses[0].ids for hypotheses in decode_corpus(model, sources, greedy)]
        finally:
            model.train(training)
        scored: dict[str, Any] = score(prepared.decode(ids), prepared.decode_tokens(ids), prepared, VALID, spec.score)
        return {NAME: float(scored["bleu"])}

    return measured
