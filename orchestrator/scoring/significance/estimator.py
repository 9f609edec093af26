"""The difference between two systems, each trained with several seeds and scored on the same sentences.

Arms A and B have k_A and k_B seeds; D is the mean score of A minus the mean score of B.

    V1 = s^2 (1/k_A + 1/k_B)    variance of D over seeds; s^2 stands for the variances of both arms and of shared seeds (mixed.py)
    V2                          bootstrap variance of D over sentences, with the seeds kept
    Ve = v (1/k_A + 1/k_B)      V2's part between seeds, already in V1; 2 v: bootstrap variance of the difference of two seeds of an arm
    V  = V1 + max(0, V2 - Ve)

D / sqrt(V1) answers "would other seeds agree, on this test set?". D / sqrt(V) answers "would other seeds agree, on other sentences?". Each
has Student's t distribution with V^2 / (V1^2 / df) degrees of freedom (Satterthwaite 1946), where df belongs to s^2. A test only over
sentences, or only over seeds if other sentences are meant, finds more significant differences than its level allows.

Between tuned arms V1 and V have the additional variance Vc of another search's choices (`expected_best.choice_variance`), with its own
degrees of freedom: V^2 / (V1^2 / df + Vc^2 / dfc).

Shapes: k seeds, N sentences, S statistics per sentence, R resamples.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from orchestrator.ledger.statistics import Floats
from orchestrator.scoring.significance.mixed import Spread, degrees

Score = Callable[[npt.NDArray[Any]], Floats]
"""Maps sums of statistics [..., S] to scores [...]."""

RESAMPLES, DRAW = 2000, 12345
"""Bootstrap resamples and the seed of their draw."""
LEVEL, POWER = 0.05, 0.8
MOST_SEEDS = 200
INFINITE = 1e9
"""Degrees of freedom from which Student's t is the normal distribution."""


@dataclass(frozen=True)
class Arm:
    """A system's seeds: their sentences' statistics [k, N, S] and the scores [k] of their sums."""

    statistics: Floats
    score: Score
    scores: Floats

    @property
    def k(self) -> int:
        return len(self.scores)

    @classmethod
    def of(cls, statistics: Sequence[npt.NDArray[Any]], score: Score) -> "Arm":
        """From the statistics [N, S] of each seed. Raises ValueError if the numbers of sentences differ or are 0."""
        sizes = {len(each) for each in statistics}
        if len(sizes) != 1 or not min(sizes):
            raise ValueError(f"seeds with {sorted(sizes)} sentences; expected the same sentences, at least one")
        stacked = np.stack(statistics).astype(np.float64)
        return cls(stacked, score, np.asarray(score(stacked.sum(axis=1)), dtype=np.float64))

    def resampled(self, times_RN: Floats, order: npt.NDArray[np.intp]) -> Floats:
        """Returns scores [k, R] of resampled sentences. `order` [N]: the sentence that each column of `times_RN` counts."""
        columns = self.statistics[:, order].transpose(1, 0, 2)  # [N, k, S]: one product for all seeds
        sums = times_RN @ columns.reshape(len(order), -1)
        return np.ascontiguousarray(self.score(sums.reshape(-1, *columns.shape[1:])).T)


@lru_cache(maxsize=4)
def multiplicities(sentences: int) -> Floats:
    """Returns how often each resample contains each sentence: [R, N]. Equal for all systems, so comparisons are paired (Koehn 2004)."""
    generator = np.random.default_rng(DRAW)
    return generator.multinomial(sentences, np.full(sentences, 1.0 / sentences), size=RESAMPLES).astype(np.float64)


@dataclass(frozen=True)
class Answer:
    """A test of D = 0.

    se: standard error of D; p: two-sided; low, high: the interval of confidence 1 - level; mde: the smallest effect that 80 % power finds.
    """

    se: float
    df: float
    p: float
    low: float
    high: float
    mde: float


@dataclass(frozen=True)
class Difference:
    """D with both answers. spread: s^2; sentences: max(0, V2 - Ve); choice, choice_df: Vc, infinite if it is unknown, and dfc."""

    delta: float
    spread: Spread
    sentences: float
    same_sentences: Answer
    other_sentences: Answer
    choice: float = 0.0
    choice_df: float = math.inf

    @property
    def kept(self) -> tuple[tuple[float, float], ...]:
        """Returns the variances that more seeds do not reduce, each with its degrees of freedom."""
        return (self.sentences, math.inf), (self.choice, self.choice_df)

    def at(self, level: float = LEVEL) -> "Difference":
        """Returns the same difference, tested at a level of significance."""
        same, other = (answer(self.delta, each.se**2, each.df, level) for each in (self.same_sentences, self.other_sentences))
        return replace(self, same_sentences=same, other_sentences=other)

    def with_choice(self, variance: float, df: float) -> "Difference":
        """Returns the same difference with the variance of the searches' choices."""

        def wider(known: Answer) -> Answer:
            v = known.se**2 + variance
            return answer(self.delta, v, satterthwaite(v, (known.se**2, known.df), (variance, df)))

        same, other = wider(self.same_sentences), wider(self.other_sentences)
        return replace(self, same_sentences=same, other_sentences=other, choice=variance, choice_df=df)


def mean_difference(a: Arm, b: Arm, shift: float) -> float:
    """Returns D. It needs no spread; shift: as of `difference`."""
    return float(a.scores.mean() - b.scores.mean()) - shift


def difference(a: Arm, b: Arm, spread: Spread | None, shift: float = 0.0) -> Difference | None:
    """Returns D of arm A against arm B. None without a spread, or if an arm has one seed.

    spread: s^2 with its degrees of freedom. shift: correction to subtract from D if the arms ran on different devices (`mixed.Blocks`).
    Raises ValueError if the arms have different numbers of sentences.
    """
    sentences = a.statistics.shape[1]
    if b.statistics.shape[1] != sentences:
        raise ValueError(f"arms with {sentences} and {b.statistics.shape[1]} sentences; expected the same sentences")
    if spread is None or min(a.k, b.k) < 2:
        return None
    share = 1 / a.k + 1 / b.k
    delta = mean_difference(a, b, shift)
    v1, df = spread.variance * share, float(spread.df)
    v2, v_within = _sentence_variances(a, b)
    over_sentences = max(0.0, v2 - v_within * share)
    v = v1 + over_sentences
    return Difference(delta, spread, over_sentences, answer(delta, v1, df), answer(delta, v, satterthwaite(v, (v1, df))))


def _sentence_variances(a: Arm, b: Arm) -> tuple[float, float]:
    """Returns (V2, v): the bootstrap variances of D, and of a seed around the mean of its arm."""
    times_RN, order = multiplicities(a.statistics.shape[1]), _order(a, b)
    resampled = [arm.resampled(times_RN, order) for arm in (a, b)]
    v2 = float((resampled[0].mean(axis=0) - resampled[1].mean(axis=0)).var(ddof=1))
    within = sum(float((scores - scores.mean(axis=0)).var(axis=1, ddof=1).sum()) for scores in resampled)
    return v2, within / (a.k + b.k - 2)


def _order(a: Arm, b: Arm) -> npt.NDArray[np.intp]:
    """Returns an order of the sentences [N] that depends only on their statistics. The order of sentences or seeds changes no result."""
    return np.lexsort([column for arm in (a, b) for seed in np.sort(arm.statistics, axis=0) for column in seed.T])


def satterthwaite(v: float, *estimated: tuple[float, float]) -> float:
    """Returns the degrees of freedom of V. estimated: its parts that are estimated from few values, with their degrees of freedom."""
    if math.isinf(v):
        return 1.0
    parts = sum(part**2 / df for part, df in estimated)
    return v**2 / parts if parts else math.inf


def answer(delta: float, variance: float, df: float, level: float = LEVEL) -> Answer:
    se = math.sqrt(variance)
    half = quantile(1 - level / 2, df) * se
    p = 2 * float(stdtr(min(df, INFINITE), -abs(delta) / se)) if se else float(delta == 0)
    return Answer(se, df, p, delta - half, delta + half, detectable(se, df, level))


def detectable(se: float, df: float, level: float = LEVEL) -> float:
    """Returns the smallest effect that a two-sided test finds with 80 % power: (t_(1 - level/2) + t_0.8) se."""
    return (quantile(1 - level / 2, df) + quantile(POWER, df)) * se


def quantile(p: float, df: float) -> float:
    """Returns the quantile of Student's t distribution; for infinite df, of the normal distribution."""
    return float(stdtrit(min(df, INFINITE), p))


def seeds_needed(effect: float, spread: Spread, *kept: tuple[float, float], level: float = LEVEL) -> int | None:
    """Returns the smallest number of seeds per arm that finds `effect` with 80 % power; None if 200 seeds are too few.

    All rows of the table get k seeds. kept: of the difference (`Difference.kept`).
    """
    for k in range(2, MOST_SEEDS + 1):
        parts = [(2 * spread.variance / k, float(degrees(spread.groups, k))), *kept]
        v = sum(variance for variance, _ in parts)
        if detectable(math.sqrt(v), satterthwaite(v, *parts), level) <= abs(effect):
            return k
    return None


def holm(p: Sequence[float]) -> list[float]:
    """Returns the p-values adjusted for multiple tests (Holm 1979), in the given order."""
    adjusted, running = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        running = max(running, min(1.0, p[i] * (len(p) - rank)))
        adjusted[i] = running
    return adjusted
