"""Compares two runs of one row: exactly where equal bits are guaranteed, within a tolerance elsewhere.

Equal bits are guaranteed for equal code, torch, device, processor and threads (DECIDING). Verdicts:

    same bits           weights, hypotheses and figures are equal, whatever else differs
    within tolerance    bits differ, a part of DECIDING explains it, and the figures are within the tolerance
    bits differ         bits differ without an explanation
    outside tolerance   bits differ with an explanation, but the figures are outside the tolerance, or one run diverged
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from orchestrator.files.listed import listed
from orchestrator.ledger.provenance import flat
from orchestrator.ledger.statistics import Numbers, mean
from orchestrator.scoring.rouge import PRINCIPAL
from orchestrator.scoring.significance.sentence_statistics import unpacked

DECIDING = listed(__file__, "deciding.txt")
"""Parts of the capsule that can change the bits of weights or hypotheses. Others, such as the lock file, MLflow or sacreBLEU, cannot."""
BLEU, NLL = 0.5, 0.02
"""Allowed differences: points of BLEU or ROUGE, and validation loss in nats per token."""


class Evidence(NamedTuple):
    """Records of a run. decoded: {} if it was not decoded; scores: name -> score record of the ledger."""

    train: Mapping[str, Any]
    capsule: Mapping[str, Any]
    decoded: Mapping[str, Any]
    scores: Mapping[str, Mapping[str, Any]]


class Measure(NamedTuple):
    """One figure of both runs. tolerance: allowed difference of two numbers; infinite: bits, which may differ."""

    what: str
    recorded: Any
    again: Any
    tolerance: float = 0.0

    @property
    def word(self) -> str:
        if self.recorded == self.again:
            return "equal"
        numbers = all(isinstance(value, (int, float)) for value in (self.recorded, self.again))
        near = math.isinf(self.tolerance) or (numbers and abs(self.recorded - self.again) <= self.tolerance)
        return "near" if near else "differs"


class Part(NamedTuple):
    """A part of the capsule that differs. decides: it can change bits."""

    part: str
    recorded: Any
    again: Any
    decides: bool


@dataclass
class Verdict:
    """Result of a comparison. capsule: what differs; reasons: why bits may differ."""

    verdict: str
    measures: list[Measure]
    capsule: list[Part]
    reasons: list[str]

    @property
    def reproduced(self) -> bool:
        """True for equal bits or figures within the tolerance."""
        return self.verdict in ("same bits", "within tolerance")

    def as_json(self) -> dict[str, Any]:
        measures = [{"what": one.what, "recorded": one.recorded, "again": one.again, "word": one.word} for one in self.measures]
        return asdict(self) | {"measures": measures, "capsule": [part._asdict() for part in self.capsule]}


def compare(recorded: Evidence, again: Evidence, reasons: Sequence[str] = ()) -> Verdict:
    """Compares two runs. reasons: why bits may differ, besides differences of the capsules."""

    def measure(name: str, part: str, what: str, allowed: float = 0.0) -> Measure:
        return Measure(name, getattr(recorded, part).get(what), getattr(again, part).get(what), allowed)

    measures = [measure(name, "train", name) for name in ("status", "steps", "params")]
    measures.append(measure("weights_sha256", "train", "weights_sha256", math.inf))
    nll, nll_again = ((one.train.get("valid") or {}).get("nll") for one in (recorded, again))
    measures.append(Measure("validation nll", nll, nll_again, NLL))
    if recorded.decoded:  # a trial of a search reads no test set
        measures.append(measure("hypotheses_sha256", "decoded", "hypotheses_sha256", math.inf))
    for name, score in recorded.scores.items():
        other = again.scores.get(name) or {}
        for what, title in (("bleu", "BLEU"), *([(PRINCIPAL, "ROUGE-L")] if PRINCIPAL in score else [])):
            measures.append(Measure(f"{title} {name}".strip(), score.get(what), other.get(what), BLEU))
        if "statistics" in score:
            ours, theirs = unpacked(score), unpacked(other)
            measures.append(Measure(f"test nll {name}".strip(), _nll(ours), _nll(theirs), NLL))
            measures.append(Measure(f"statistics {name}".strip(), _sha256(ours), _sha256(theirs), math.inf))
    one, other = (flat({name: value for name, value in each.capsule.items() if name != "key"}) for each in (recorded, again))
    names = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    decides = {name: any(name == part or name.startswith(f"{part}.") for part in DECIDING) for name in names}
    parts = sorted((Part(name, one.get(name), other.get(name), decides[name]) for name in names), key=lambda part: not part.decides)
    why = [*reasons, *(part.part for part in parts if part.decides)]
    words = {each.word for each in measures}
    if words == {"equal"}:
        verdict = "same bits"
    elif not why:
        verdict = "bits differ"
    else:
        verdict = "outside tolerance" if "differs" in words else "within tolerance"
    return Verdict(verdict, measures, parts, why)


def _nll(statistics: Mapping[str, Numbers]) -> float | None:
    return float(mean(statistics["nll"].sum(axis=0))) if "nll" in statistics else None


def _sha256(statistics: Mapping[str, Numbers]) -> str:
    """Returns the digest of statistics per sentence, in whatever form a record has them."""
    found = hashlib.sha256()
    for name, values in sorted(statistics.items()):
        found.update(name.encode() + np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return found.hexdigest()
