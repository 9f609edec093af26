"""The effect of each row of a table: its difference to the row it is compared with, over seeds and sentences, and the verdict on a claim.

The variances over seeds come from one mixed model of our rows that were scored alike. Another system's row has only its own variance.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from orchestrator.ledger.provenance import differences
from orchestrator.ledger.statistics import bleu_parts
from orchestrator.report.find import SeedResult
from orchestrator.scoring.rouge import PRINCIPAL
from orchestrator.scoring.significance import verdicts
from orchestrator.scoring.significance.estimator import Answer, Arm, Difference, difference, mean_difference
from orchestrator.scoring.significance.mixed import MixedModel, Spread, unpaired
from orchestrator.scoring.significance.sentence_statistics import StatisticsReader, score_of
from orchestrator.scoring.significance.verdicts import CONFIRMED, OPEN, REVERSED
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table import FAILED, number

Outcomes = Mapping[str, Sequence[SeedResult]]
Key = tuple[str, str]
"""Corpus and signature of a score. Runs with equal keys were scored alike."""
WHERE = ("device", "git_commit", "matmul")
"""Fields of a capsule that a comparison lists if its runs differ in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Contributions of precisions and lengths to a difference in BLEU, in points, and both rows' mean precisions and brevity penalties."""

    precision: float
    length: float
    precisions: list[list[float]]
    brevity_penalty: list[float]


@dataclass(frozen=True)
class Effect:
    """D of a row against another row, in the units of a metric.

    difference: None if an arm has one seed. parts: for a difference in BLEU, see `_parts`. differs: fields in which the capsules differ.
    runs: score keys of the runs of both rows. adjustment: for the kinds of device, which delta has beside the difference of the means.
    """

    row: str
    against: str
    metric: str
    delta: float
    seeds: tuple[int, int]
    difference: Difference | None = None
    parts: Parts | None = None
    differs: tuple[str, ...] = ()
    runs: tuple[frozenset[str], ...] = ()
    adjustment: float = 0.0

    @property
    def answer(self) -> Answer | None:
        """Returns the test over other seeds and sentences; None if an arm has one seed or the variance of a search's choice is unknown."""
        return None if self.difference is None or math.isinf(self.difference.choice) else self.difference.other_sentences

    @property
    def interval(self) -> str:
        """Returns D with its interval over other seeds and sentences, as text."""
        return interval(self.metric, self.delta, self.answer)

    @property
    def shares(self) -> str:
        """Returns its parts, `+0.70, +0.06`; empty without parts."""
        return "" if self.parts is None else f"{self.parts.precision:+.2f}, {self.parts.length:+.2f}"

    def at(self, level: float) -> "Effect":
        return replace(self, difference=None if self.difference is None else self.difference.at(level))

    def as_json(self) -> dict[str, Any]:
        """{"against", "metric", "delta", "seeds"}, "parts", and with two seeds each both answers and the variance."""
        plain: dict[str, Any] = {"against": self.against, "metric": self.metric, "delta": self.delta, "seeds": list(self.seeds)}
        plain |= {"differs": list(self.differs)} if self.differs else {}
        plain |= {"parts": asdict(self.parts)} if self.parts is not None else {}
        if (found := self.difference) is None:
            return plain
        plain |= {"sd": found.spread.sd, "sd_df": round(found.spread.df), "sd_rows": found.spread.groups}
        return plain | {"other_seeds": _answer(found.same_sentences), "other_seeds_and_sentences": _answer(found.other_sentences)}


DIGITS = {"nll": 3}
"""Metric -> decimals of its differences, if not two."""


class Effects:
    """The arms of a table's rows for one metric. floor: the spread of another row of the same recipe."""

    def __init__(
        self,
        rows: Sequence[Row],
        outcomes: Outcomes,
        reader: StatisticsReader,
        metric: str | None = None,
        floor: Callable[[RunSpec, str], Spread | None] = lambda spec, metric: None,
    ) -> None:
        self.rows = {row.id: row for row in rows if row.spec is not None}
        self.metrics = {row_id: metric or main_metric(row) for row_id, row in self.rows.items()}
        self.floor = floor
        self.arms: dict[str, Arm] = {}
        self.runs: dict[str, frozenset[str]] = {}
        self._models: dict[Key, MixedModel[frozenset[str]]] = {}
        self.seeds: dict[str, dict[int, float]] = {}
        self.capsules: dict[str, list[Mapping[str, Any]]] = {}
        self.keys: dict[str, Key] = {}
        for row_id, row in self.rows.items():
            self._add(row, outcomes.get(row_id, ()), reader)

    def _add(self, row: Row, found: Sequence[SeedResult], reader: StatisticsReader) -> None:
        done = [o for o in found if o.status == "done" and o.bleu is not None]
        done = list({o.keys.score: o for o in done}.values())  # rows that share a run share its score
        metric = self.metrics[row.id]
        statistics = [each[metric] for o in done if metric in (each := reader.of(o.keys))]
        signatures = {str(o.signature) for o in done}
        if not done or len(statistics) < len(done) or len(signatures) > 1:
            return
        self.runs[row.id] = frozenset(str(o.keys.score) for o in done)
        self.arms[row.id] = arm = Arm.of(statistics, score_of(metric, row.run_spec.score))
        self.seeds[row.id] = {o.seed: float(score) for o, score in zip(done, arm.scores, strict=True)}
        self.capsules[row.id] = [{name: (o.capsule or {}).get(name) for name in WHERE} for o in done if row.kind == "run"]
        vocabulary = row.run_spec.data.model_dump_json() if metric == "nll" else ""  # the unit of the nll is a subword
        self.keys[row.id] = str(row.run_spec.data.corpus), f"{signatures.pop()} {row.run_spec.score.test} {len(statistics[0])} {vocabulary}"

    def spread(self, row: str) -> Spread | None:
        """Returns the moderated variance of a row of ours over seeds; None if no row has two seeds."""
        return self.model(row).of(self.runs[row])

    def model(self, row: str) -> MixedModel[frozenset[str]]:
        """Returns the mixed model of our rows that were scored like this row, which is one of them. Each run counts once."""
        key = self.keys[row]
        if key not in self._models:
            first, *_ = alike = [row_id for row_id in self.arms if self.keys[row_id] == key and self.rows[row_id].kind == "run"]
            floor = self.floor(self.rows[first].run_spec, self.metrics[first])
            named = {row_id: [str(each["device"] or "") for each in self.capsules[row_id]] for row_id in alike}
            devices = {self.runs[row_id]: dict(zip(self.seeds[row_id], own, strict=True)) for row_id, own in named.items()}
            self._models[key] = MixedModel({self.runs[row_id]: self.seeds[row_id] for row_id in alike}, floor, devices)
        return self._models[key]

    def between(self, row: str, against: str) -> Effect | None:
        """Returns the effect of a row against another row; None if one has no figures, or if they were scored differently or share runs."""
        if row not in self.arms or against not in self.arms or self.keys[row] != self.keys[against] or self.runs[row] & self.runs[against]:
            return None
        ours, base, runs = self.arms[row], self.arms[against], (self.runs[row], self.runs[against])
        model = self.model(row) if self.rows[row].kind == self.rows[against].kind == "run" else None
        shift = 0.0 if model is None else model.blocks.between(*runs)[0]
        found = difference(ours, base, unpaired(ours.scores, base.scores) if model is None else model.between(*runs), shift)
        delta = mean_difference(ours, base, shift)
        unlike = differences([*self.capsules[row], *self.capsules[against]])
        parts = _parts(ours, base, self.rows[row].run_spec) if self.metrics[row] == "bleu" else None
        return Effect(row, against, self.metrics[row], delta, (ours.k, base.k), found, parts, tuple(unlike), runs, -shift)


def main_metric(row: Row) -> str:
    """Returns the metric of a row's own score: ROUGE-L for summaries, else BLEU."""
    return PRINCIPAL if row.spec is not None and row.spec.score.metric == "rouge" else "bleu"


def claimed(row: Row, base: Row | None) -> float | None:
    """Returns the difference that the paper reports: its `delta`, else the difference of the two printed scores."""
    if row.expect.get("delta") is not None:
        return number(row.expect["delta"])
    name = main_metric(row)
    ours, theirs = number(row.expect.get(name)), None if base is None else number(base.expect.get(name))
    return None if ours is None or theirs is None else round(ours - theirs, 4)


def failure_verdict(row: Row, found: Sequence[SeedResult], gain: bool = False) -> verdicts.Verdict | None:
    """Returns the verdict on a row that failed in the paper, or of which a seed failed or diverged only here. None for other rows.

    gain: whether the row is claimed to be better than another.
    """
    failed, stated = sum(o.stated or o.status == "diverged" for o in found), row.expect.get("bleu") == FAILED
    every = failed + sum(o.status == "done" for o in found)
    if not (stated or failed) or not any(o.status == "done" or o.stated for o in found):
        return None
    counts = f"{failed} of {every} seeds failed"
    if every < 2:
        return verdicts.Verdict(verdicts.ONE_SEED, counts)
    if stated:
        words = {every: CONFIRMED, 0: REVERSED}
        return verdicts.Verdict(words.get(failed, OPEN), f"{counts}; the paper's failed")
    if failed < every:
        return verdicts.Verdict(OPEN, f"{counts}; a mean over the others would leave them out")
    return verdicts.Verdict(REVERSED if gain else OPEN, counts + ("; the paper's did not" if "bleu" in row.expect else ""))


def _parts(a: Arm, b: Arm, spec: RunSpec) -> Parts:
    """Returns the parts of a difference in BLEU = P B, with P the mean precision and B the brevity penalty.

    length: the mean over pairs of seeds of (B_a - B_b) (P_a + P_b) / 2, before any adjustment for devices.
    """
    found = [bleu_parts(arm.statistics.sum(axis=1), spec.score) for arm in (a, b)]
    (B_a, B_b), (P_a, P_b) = ([each[1] for each in found], [arm.scores / np.maximum(each[1], 1e-9) for arm, each in zip((a, b), found)])
    length = float(((B_a[:, None] - B_b) * (P_a[:, None] + P_b) / 2).mean())
    precisions = [[float(p) for p in 100 * each.mean(axis=0)] for each, _ in found]
    whole = float(a.scores.mean() - b.scores.mean())
    penalties = [float(B_a.mean()), float(B_b.mean())]
    return Parts(precision=whole - length, length=length, precisions=precisions, brevity_penalty=penalties)


def _answer(answer: Answer) -> dict[str, float | None]:
    found = {"se": answer.se, "df": min(answer.df, 1e9), "low": answer.low, "high": answer.high, "mde": answer.mde, "p": answer.p}
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def interval(metric: str, delta: float, found: Answer | None) -> str:
    """Returns `+0.42 (-0.10 to +0.94)`, without the interval for a single seed. Differences of the nll have three decimals."""
    digits = DIGITS.get(metric, 2)
    return f"{delta:+.{digits}f}" + ("" if found is None else f" ({found.low:+.{digits}f} to {found.high:+.{digits}f})")
