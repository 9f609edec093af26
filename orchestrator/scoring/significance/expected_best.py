"""The expected best result of a search with fewer trials, and the variance that another search would add to a difference."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orchestrator.ledger.statistics import Floats

RESAMPLES = 2000


def expected_best(values: Sequence[float], *, larger: bool = False) -> list[float]:
    """Returns the expected best of n of these values, drawn without replacement, for n = 1, 2, ..

    The unbiased form (Tang et al. 2020, eq. 5) of the expected maximum of Dodge et al. (2019, eq. 4): with v_1 the worst of N values,
    sum_i v_i C(i - 1, n - 1) / C(N, n).
    """
    ordered = sorted(values, reverse=not larger)
    size = len(ordered)
    return [sum(v * math.comb(i, n - 1) for i, v in enumerate(ordered)) / math.comb(size, n) for n in range(1, size + 1)]


def choice_variance(losses: Sequence[Sequence[float]], scores: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Returns the variance that another search would add to the difference of two tuned rows, and its degrees of freedom.

    Bootstrap over the draws: a search with T trials has trial 0, the row as written, and T - 1 of the draws with replacement. Each row
    chooses its trial with the lowest loss. The variance is the mean squared change of the difference of the chosen trials' scores. Trials
    with one number have the same draws, so equal gains by equal draws cancel out. Degrees of freedom: draws that a row finished.

    losses, scores: [2, T]. Infinite losses: trials that did not finish. A row that can choose none of them takes its worst finished trial;
    without a finished trial it has no choice. The variance is infinite if the score of a trial that can be chosen is unknown (NaN).
    """
    draws = len(losses[0]) - 1
    if not draws:
        return 0.0, math.inf
    drawn = np.random.default_rng(draws).integers(1, draws + 1, size=(RESAMPLES, draws))
    searches = np.insert(drawn, 0, 0, axis=1)  # [R, T]
    own, other = (_changes(np.array(loss), np.array(score), searches) for loss, score in zip(losses, scores, strict=True))
    variance = float(np.square(own - other).mean())
    finished = int(np.isfinite(losses)[:, 1:].any(axis=0).sum())
    return math.inf if math.isnan(variance) else variance, float(max(1, finished))


def _changes(losses: Floats, scores: Floats, searches: npt.NDArray[np.intp]) -> Floats:
    """Returns by how much the chosen trial's score changes in each search [R]. losses, scores: of a row [T]; searches: trials [R, T]."""
    finished = np.isfinite(losses)
    if not finished.any():
        return np.zeros(len(searches))
    worst = np.where(finished, losses, -np.inf).argmax()
    counts_as = np.where(finished, np.arange(len(losses)), worst)
    losses, scores = losses[counts_as], scores[counts_as]
    if np.isnan(scores).any():
        return np.full(len(searches), np.nan)
    chosen = searches[np.arange(len(searches)), losses[searches].argmin(axis=1)]
    return scores[chosen] - scores[losses.argmin()]
