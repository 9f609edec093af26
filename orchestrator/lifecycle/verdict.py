"""Compares two runs of one row: exactly where equal bits are guaranteed, within a tolerance elsewhere.

Equal bits are guaranteed for equal code, torch, device, processor and threads (DECIDING). Verdicts:

    same bits           weights, hypotheses and figures are equal, whatever else differs
    within tolerance    bits differ, a part of DECIDING explains it, and the figures are within the tolerance
    bits differ         bits differ without an explanation
    outside tolerance   bits differ with an explanation, but the figures are outside the tolerance, or one run diverged
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

from orchestrator.ledger.provenance import flat

DECIDING = (
    "cpu",
    "device",
    "dirty_sha256",
    "git_commit",
    "libraries.numpy",
    "libraries.sentencepiece",
    "libraries.torch",
    "matmul",
    "python",
    "system",
    "threads",
)
"""Parts of the capsule that can change the bits of weights or hypotheses. Others, such as the lock file, MLflow or sacreBLEU, cannot."""
REPRODUCED = ("same bits", "within tolerance")


@dataclass(frozen=True)
class Tolerance:
    """Allowed differences. bleu: points of BLEU or ROUGE; nll: validation loss in nats per token."""

    bleu: float = 0.5
    nll: float = 0.02


@dataclass(frozen=True)
class Evidence:
    """Records of a run. decoded: {} if it was not decoded; hypotheses: None without texts; scores: name -> score record of the ledger."""

    train: Mapping[str, Any]
    capsule: Mapping[str, Any]
    decoded: Mapping[str, Any]
    hypotheses: Sequence[str] | None
    scores: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Measure:
    """One figure of both runs.

    tolerance: allowed difference of two numbers; None: equal, except bits (`of_bits`). differ: number of hypotheses that differ.
    """

    what: str
    recorded: Any
    again: Any
    tolerance: float | None = None
    of_bits: bool = False
    differ: int | None = None

    @property
    def equal(self) -> bool:
        return self.recorded == self.again and not self.differ

    @property
    def near(self) -> bool:
        """True if the figures agree within the tolerance, whatever the bits."""
        if self.tolerance is not None and all(isinstance(value, (int, float)) for value in (self.recorded, self.again)):
            return bool(abs(self.recorded - self.again) <= self.tolerance)
        return self.of_bits or self.recorded == self.again

    @property
    def word(self) -> str:
        if self.equal:
            return "equal"
        return f"{self.differ} lines differ" if self.differ is not None else "near" if self.near else "differs"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"equal": self.equal, "near": self.near}


@dataclass(frozen=True)
class Part:
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
    reasons: list[str] = field(default_factory=list)

    @property
    def reproduced(self) -> bool:
        """True for equal bits or figures within the tolerance."""
        return self.verdict in REPRODUCED

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"measures": [measure.as_json() for measure in self.measures]}


def compare(recorded: Evidence, again: Evidence, tolerance: Tolerance, reasons: Sequence[str] = ()) -> Verdict:
    """Compares two runs. reasons: why bits may differ, besides differences of the capsules (another key, fused seeds)."""
    measures = [Measure(name, recorded.train.get(name), again.train.get(name)) for name in ("status", "steps", "params")]
    measures.append(Measure("weights_sha256", recorded.train.get("weights_sha256"), again.train.get("weights_sha256"), of_bits=True))
    nll, nll_again = ((one.train.get("valid") or {}).get("nll") for one in (recorded, again))
    measures.append(Measure("validation nll", nll, nll_again, tolerance.nll))
    if recorded.hypotheses is not None and again.hypotheses is not None:
        differ = sum(a != b for a, b in zip_longest(recorded.hypotheses, again.hypotheses))
        measures.append(Measure("hypotheses", len(recorded.hypotheses), len(again.hypotheses), differ=differ))
    elif recorded.decoded and again.decoded:
        sha256, sha256_again = (one.decoded.get("hypotheses_sha256") for one in (recorded, again))
        measures.append(Measure("hypotheses_sha256", sha256, sha256_again, of_bits=True))
    for name, score in recorded.scores.items():
        measures.append(Measure(f"BLEU {name}".strip(), score.get("bleu"), (again.scores.get(name) or {}).get("bleu"), tolerance.bleu))
    one, other = (flat({name: value for name, value in each.capsule.items() if name != "key"}) for each in (recorded, again))
    names = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    decides = {name: any(name == part or name.startswith(f"{part}.") for part in DECIDING) for name in names}
    parts = sorted((Part(name, one.get(name), other.get(name), decides[name]) for name in names), key=lambda part: not part.decides)
    why = [*reasons, *(part.part for part in parts if part.decides)]
    if all(measure.equal for measure in measures):
        verdict = "same bits"
    elif not why:
        verdict = "bits differ"
    else:
        verdict = "within tolerance" if all(measure.near for measure in measures) else "outside tolerance"
    return Verdict(verdict, measures, parts, why)
