"""The exponent of the length penalty that does best on the validation set (Shen et al. 2018, section 4.3, after Gehring et al. 2017)."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
    """Decode the validation set with every candidate: {"alpha": the best, "candidates": [{"alpha", "bleu"}], "signature", ..}.

    The best by the row's metric; of equals the first.
    """
    started = time.perf_counter()
    ids = prepared.encode(prepared.sources(VALID))
    found, signature = [], ""
    for alpha in decode.length_penalty.candidates or []:
        outputs = [hypotheses[0].ids for hypotheses in decode_corpus(model, ids, settled(decode, {"alpha": alpha}))]
        scored = score(prepared.decode(outputs), prepared.decode_tokens(outputs), prepared, VALID, metric)
        found.append({"alpha": alpha, "bleu": scored["bleu"]})
        signature = scored["signature"]
    best = max(found, key=lambda each: each["bleu"])
    return {"alpha": best["alpha"], "candidates": found, "signature": signature, "seconds": round(time.perf_counter() - started, 3)}


def settled(decode: DecodeSpec, record: Mapping[str, Any]) -> DecodeSpec:
    """The search with the exponent that a record of `tune` names."""
    penalty = decode.length_penalty.model_copy(update={"alpha": float(record["alpha"]), "candidates": None})
    return decode.model_copy(update={"length_penalty": penalty})


def _record(keys: Keys, ledger: Ledger) -> dict[str, Any] | None:
    return None if keys.tune is None or keys.train is None else ledger.read_tune(keys.train, keys.tune)


def known(decode: DecodeSpec, keys: Keys, ledger: Ledger, row: str) -> DecodeSpec:
    """The search of a row that may be tuned. UserError where it is and was not decoded yet."""
    if decode.length_penalty.alpha != "tuned":
        return decode
    record = _record(keys, ledger)
    if record is None:
        raise UserError(f"{row}: its length penalty is tuned, and was not yet; expected nmt-ablate run {row} first")
    return settled(decode, record)


def with_known(spec: RunSpec, keys: Keys, ledger: Ledger) -> RunSpec:
    """With the search that was tuned, for whoever decodes with it; not tuned yet, with the first candidate. It has no keys: they are of
    the spec that says `tuned`."""
    decode = spec.decode
    if decode.length_penalty.alpha != "tuned":
        return spec
    candidates = decode.length_penalty.candidates or []
    record = _record(keys, ledger)
    return spec.model_copy(update={"decode": settled(decode, {"alpha": candidates[0]} if record is None else record)})
