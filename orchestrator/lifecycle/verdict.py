"""Compares two runs of one row: exactly where equal bits are guaranteed, within a tolerance elsewhere.

Equal bits are guaranteed for equal code, torch, device, processor and threads (DECIDING). Verdicts:

    same bits           weights, hypotheses and figures are equal, whatever else differs
    within tolerance    bits differ, a part of DECIDING explains it, and the figures are within the tolerance
    bits differ         bits differ without an explanation
    outside tolerance   bits differ with an explanation, but the figures are outside the tolerance, or one run diverged
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass
class Verdict:
    """Result of a comparison.

    measures: {what, recorded, again, equal, near}; capsule: {part, recorded, again, decides}; reasons: why bits may differ.
    """

    verdict: str
    measures: list[dict[str, Any]]
    capsule: list[dict[str, Any]]
    reasons: list[str] = field(default_factory=list)

    @property
    def reproduced(self) -> bool:
        """True for equal bits or figures within the tolerance."""
        return self.verdict in REPRODUCED


def compare(recorded: Evidence, again: Evidence, tolerance: Tolerance, reasons: Sequence[str] = ()) -> Verdict:
    """Compares two runs. reasons: why bits may differ, besides differences of the capsules (another key, fused seeds)."""
    measures = [_measure(name, recorded.train.get(name), again.train.get(name)) for name in ("status", "steps", "params", "weights_sha256")]
    measures.append(_nll(recorded.train, again.train, tolerance.nll))
    if recorded.hypotheses is not None and again.hypotheses is not None:
        measures.append(_texts(recorded.hypotheses, again.hypotheses))
    elif recorded.decoded and again.decoded:
        measures.append(_measure("hypotheses_sha256", *(one.decoded.get("hypotheses_sha256") for one in (recorded, again))))
    for name, score in recorded.scores.items():
        measures.append(_figure(f"BLEU {name}".strip(), score.get("bleu"), (again.scores.get(name) or {}).get("bleu"), tolerance.bleu))
    parts = capsule_differences(recorded.capsule, again.capsule)
    why = [*reasons, *(part["part"] for part in parts if part["decides"])]
    if all(measure["equal"] for measure in measures):
        verdict = "same bits"
    elif not why:
        verdict = "bits differ"
    else:
        verdict = "within tolerance" if all(measure["near"] for measure in measures) else "outside tolerance"
    return Verdict(verdict, measures, parts, why)


def capsule_differences(recorded: Mapping[str, Any], again: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All parts that differ, those that can change bits first."""
    one, other = (flat({name: value for name, value in capsule.items() if name != "key"}) for capsule in (recorded, again))
    names = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    found = [{"part": name, "recorded": one.get(name), "again": other.get(name), "decides": _decides(name)} for name in names]
    return sorted(found, key=lambda part: not part["decides"])


def _decides(name: str) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in DECIDING)


def _measure(what: str, recorded: Any, again: Any) -> dict[str, Any]:
    """A measure that must be equal; differing weights and texts still count as near."""
    return {
        "what": what,
        "recorded": recorded,
        "again": again,
        "equal": recorded == again,
        "near": recorded == again or what in ("weights_sha256", "hypotheses_sha256"),
    }


def _nll(recorded: Mapping[str, Any], again: Mapping[str, Any], tolerance: float) -> dict[str, Any]:
    before, after = ((one.get("valid") or {}).get("nll") for one in (recorded, again))
    return _figure("validation nll", before, after, tolerance)


def _figure(what: str, recorded: Any, again: Any, tolerance: float) -> dict[str, Any]:
    numbers = isinstance(recorded, (int, float)) and isinstance(again, (int, float))
    near = abs(recorded - again) <= tolerance if numbers else recorded == again
    return {"what": what, "recorded": recorded, "again": again, "equal": recorded == again, "near": near, "tolerance": tolerance}


def _texts(recorded: Sequence[str], again: Sequence[str]) -> dict[str, Any]:
    """Comparison of hypotheses: number of lines, and of lines that differ."""
    other = sum(a != b for a, b in zip(recorded, again, strict=False)) + abs(len(recorded) - len(again))
    near = len(recorded) == len(again)
    return {"what": "hypotheses", "recorded": len(recorded), "again": len(again), "equal": other == 0, "near": near, "differ": other}
