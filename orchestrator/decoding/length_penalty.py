"""Tunes the exponent of the length penalty on the validation set (Shen et al. 2018, section 4.3, after Gehring et al. 2017)."""

from __future__ import annotations

import time
from typing import Any

from torch import nn

from orchestrator.data.prepare import Prepared
from orchestrator.decoding.translate import decode_corpus
from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.scoring.scores import score
from orchestrator.specs.schema import DecodeSpec, RunSpec, ScoreSpec

VALID = "valid"


def tune(model: nn.Module, prepared: Prepared, decode: DecodeSpec, metric: ScoreSpec) -> dict[str, Any]:
    """Decodes the validation set with every candidate.

    Returns {"alpha": the best, "candidates": [{"alpha", "bleu"}], "signature", "seconds"}. The best has the highest score by `metric`; the
    first wins ties.
    """
    started = time.perf_counter()
    ids = prepared.encode(prepared.sources(VALID))
    candidates, signature = [], ""
    for alpha in decode.length_penalty.candidates or []:
        outputs = [hypotheses[0].ids for hypotheses in decode_corpus(model, ids, with_alpha(decode, alpha))]
        scored = score(prepared.decode(outputs), prepared.decode_tokens(outputs), prepared, VALID, metric)
        candidates.append({"alpha": alpha, "bleu": scored["bleu"]})
        signature = scored["signature"]
    best = max(candidates, key=lambda candidate: candidate["bleu"])
    return {"alpha": best["alpha"], "candidates": candidates, "signature": signature, "seconds": round(time.perf_counter() - started, 3)}


def with_alpha(decode: DecodeSpec, alpha: float) -> DecodeSpec:
    """`decode` with a fixed exponent instead of a tuned one."""
    penalty = decode.length_penalty.model_copy(update={"alpha": float(alpha), "candidates": None})
    return decode.model_copy(update={"length_penalty": penalty})


def _record(keys: Keys, ledger: Ledger) -> dict[str, Any] | None:
    return None if keys.tune is None or keys.train is None else ledger.read_tune(keys.train, keys.tune)


def tuned_decode(decode: DecodeSpec, keys: Keys, ledger: Ledger, row: str) -> DecodeSpec:
    """The row's search with its tuned exponent, if it has one. Raises UserError if it has not been tuned yet."""
    if decode.length_penalty.alpha != "tuned":
        return decode
    record = _record(keys, ledger)
    if record is None:
        raise UserError(f"{row}: its length penalty is tuned, and was not yet; expected nmt-ablate run {row} first")
    return with_alpha(decode, record["alpha"])


def tuned_spec(spec: RunSpec, keys: Keys, ledger: Ledger) -> RunSpec:
    """The spec with its tuned exponent, or with the first candidate if it has not been tuned yet.

    Only for decoding: keys are computed from the spec with `tuned`.
    """
    decode = spec.decode
    if decode.length_penalty.alpha != "tuned":
        return spec
    candidates = decode.length_penalty.candidates or []
    record = _record(keys, ledger)
    return spec.model_copy(update={"decode": with_alpha(decode, candidates[0] if record is None else record["alpha"])})
