"""Scores of the validation set: the exponent of the length penalty that does best on it (Shen et al. 2018, section 4.3), BLEU at rungs."""

import time
from collections.abc import Callable
from typing import Any

from torch import nn

from orchestrator.data.prepare import Prepared
from orchestrator.decoding.translate import decode_corpus
from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.scoring.scores import References, score
from orchestrator.specs.schema import DecodeSpec, RunSpec, ScoreSpec

VALID, NAME = "valid", "valid/bleu"

RungMetrics = Callable[[nn.Module], dict[str, float]]
"""Computes metrics of the model at a rung, without changes to weights, random state or training mode."""


def scored(
    model: nn.Module, prepared: Prepared, ids: list[list[int]], decode: DecodeSpec, metric: ScoreSpec, references: References | None = None
) -> dict[str, Any]:
    """Decodes sources and returns their scores (`scoring.scores.score`). references: those of the validation set by default."""
    outputs = [hypothesis.ids for hypothesis in decode_corpus(model, ids, decode)]
    return score(prepared.decode(outputs), prepared.decode_tokens(outputs), references or prepared, VALID, metric)


def tune(model: nn.Module, prepared: Prepared, decode: DecodeSpec, metric: ScoreSpec) -> dict[str, Any]:
    """Decodes the validation set with every candidate. Returns {"alpha": the best by `metric`, the first of equals, "candidates":
    [{"alpha", "bleu"}], "signature", "seconds"}. With beam size 1 it tries the first alone: no exponent has an effect there."""
    started = time.perf_counter()
    ids = prepared.encode(prepared.sources(VALID))
    alphas = (decode.length_penalty.candidates or [])[: 1 if decode.beam_size == 1 else None]
    scores = [scored(model, prepared, ids, with_alpha(decode, alpha), metric) for alpha in alphas]
    candidates = [{"alpha": alpha, "bleu": each["bleu"]} for alpha, each in zip(alphas, scores, strict=True)]
    best, seconds = max(candidates, key=lambda candidate: candidate["bleu"]), round(time.perf_counter() - started, 3)
    return {"alpha": best["alpha"], "candidates": candidates, "signature": scores[-1]["signature"], "seconds": seconds}


def with_alpha(decode: DecodeSpec, alpha: float) -> DecodeSpec:
    """`decode` with a fixed exponent instead of a tuned one."""
    penalty = decode.length_penalty.model_copy(update={"alpha": float(alpha), "candidates": None})
    return decode.model_copy(update={"length_penalty": penalty})


def tuned_decode(decode: DecodeSpec, keys: Keys, ledger: Ledger, row: str | None = None) -> DecodeSpec:
    """The search with its tuned exponent, if it has one. Keys are computed from the search with `tuned`.
    row: for the UserError if it has not been tuned yet; None: then the first candidate.
    """
    if decode.length_penalty.alpha != "tuned":
        return decode
    record = None if keys.tune is None or keys.train is None else ledger.record(keys.train, "tune", keys.tune)
    if record is None and row is not None:
        raise UserError(f"{row}: its length penalty is tuned, and was not yet; expected nmt-ablate run {row} first")
    return with_alpha(decode, (decode.length_penalty.candidates or [])[0] if record is None else record["alpha"])


def rung_bleu(spec: RunSpec, prepared: Prepared) -> RungMetrics:
    """Returns a function of the model that computes `valid/bleu` in percent by the row's metric, from fp32 greedy search for speed."""
    sources = prepared.encode(prepared.sources(VALID))
    greedy = with_alpha(spec.decode.model_copy(update={"beam_size": 1, "precision": "fp32"}), 0.0)  # it has no effect on greedy search
    return lambda model: {NAME: float(scored(model, prepared, sources, greedy, spec.score)["bleu"])}
