"""The expected best result of a search with fewer trials, and the variance that another search would add to a difference."""

import math
from collections.abc import Sequence

import numpy as np

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
    loss, score = np.array(losses, dtype=np.float64), np.array(scores, dtype=np.float64)
    finished = np.isfinite(loss)
    score[~finished.any(axis=1)] = 0.0
    worst = np.where(finished, loss, -np.inf).argmax(axis=1)[:, None]
    trial = np.where(finished, np.arange(loss.shape[1]), worst)  # [2, T]: the trial that stands for each
    loss, score = np.take_along_axis(loss, trial, axis=1), np.take_along_axis(score, trial, axis=1)
    if np.isnan(score).any():
        return math.inf, 1.0
    draws = loss.shape[1] - 1
    if not draws:
        return 0.0, math.inf
    drawn = np.random.default_rng(draws).integers(1, draws + 1, size=(RESAMPLES, draws))
    drawn = np.concatenate([np.zeros((RESAMPLES, 1), dtype=drawn.dtype), drawn], axis=1)  # [R, T]
    found = loss[:, drawn].argmin(axis=2)  # [2, R]
    chosen = np.take_along_axis(drawn, found.T, axis=1).T
    changes = np.take_along_axis(score, chosen, axis=1) - score[np.arange(2), loss.argmin(axis=1)][:, None]
    return float(np.square(changes[0] - changes[1]).mean()), float(max(1, finished[:, 1:].any(axis=0).sum()))
