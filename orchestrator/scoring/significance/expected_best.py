"""The expected best result of a search with fewer trials, and the possible gain of more trials."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

MOST = 1000
"""Maximum number of halves. Up to 12 draws all halves are used; with more draws, random ones."""


def expected_best(values: Sequence[float], *, larger: bool = False) -> list[float]:
    """Returns the expected best of n of these values, drawn without replacement, for n = 1, 2, ..

    The unbiased form (Tang et al. 2020, eq. 5) of the expected maximum of Dodge et al. (2019, eq. 4): with v_1 the worst of N values,
    sum_i v_i C(i - 1, n - 1) / C(N, n).
    """
    ordered = sorted(values, reverse=not larger)
    size = len(ordered)
    return [sum(v * math.comb(i, n - 1) for i, v in enumerate(ordered)) / math.comb(size, n) for n in range(1, size + 1)]


def gap(row: Sequence[float], other: Sequence[float]) -> float:
    """Returns how far other draws may move the difference between two tuned rows (root mean square).

    The mean is over halves S of the draws, of the change (min_all row - min_S row) - (min_all other - min_S other). Every S contains
    trial 0, the row as written. Trials with one number have the same draws, so S contains both or none. row, other: losses of the trials,
    infinite if ended early. A trial that ended early for one row gets the worst finite loss. One that ended early for both is left out.
    A row without a finished trial has no choice, so its losses count as equal.
    """
    losses = np.array([row, other])
    ended = np.isfinite(losses)
    worst = np.where(ended, losses, -np.inf).max(axis=1, keepdims=True)
    losses = np.where(ended, losses, np.where(np.isfinite(worst), worst, 0.0))
    draws = [trial for trial in range(1, losses.shape[1]) if ended[:, trial].any()]
    half = len(draws) // 2
    halves = list(itertools.islice(itertools.combinations(draws, half), MOST + 1))
    if len(halves) > MOST:
        generator = np.random.default_rng(len(draws))
        halves = [tuple(generator.permutation(draws)[:half]) for _ in range(MOST)]
    gains = losses[:, np.array([(0, *each) for each in halves])].min(axis=2) - losses.min(axis=1, keepdims=True)
    return float(np.sqrt(np.square(gains[0] - gains[1]).mean()))
