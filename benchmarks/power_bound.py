"""The largest power of any test that holds its level where spreads are equal and where one of two rows varies twice as much.

Rows 0 and 1 have k seeds. Known are the equal spread sigma, and the two own variances, chi-squared with k - 1 degrees of freedom. The bound
is the dual of the linear programme "maximise the power at equal spreads, sizes at most a" (Neyman and Pearson): for all l0, l1 >= 0

    power <= sum max(0, f_effect - l0 f_equal - l1 f_double) + a l0 + a l1,

with the densities of (s_0^2, s_1^2, |D|). No estimator knows sigma, so that real tests have less.

    python benchmarks/power_bound.py
"""

import numpy as np
from scipy.optimize import minimize
from scipy.stats import chi2, norm

SIZE, EFFECT, CELLS = 0.065, 3.0, 40
"""Largest size; effect in standard errors at equal spreads; cells of each variance's half of the grid."""


def bound(k: int) -> float:
    """The bound with k seeds a row."""
    quantiles = chi2.ppf((np.arange(CELLS) + 0.5) / CELLS, k - 1)
    grid = np.sort(np.concatenate([quantiles, 4 * quantiles]))
    edges = np.concatenate([[0.0], (grid[1:] + grid[:-1]) / 2, [np.inf]])
    equal, double = np.diff(chi2.cdf(edges, k - 1)), np.diff(chi2.cdf(edges / 4, k - 1))
    se, se_double = np.sqrt(2 / k), np.sqrt(5 / k)
    D = np.linspace(0, EFFECT * se + 7 * se_double, 400)

    def density(first: np.ndarray, second: np.ndarray, of_D: np.ndarray) -> np.ndarray:
        return first[:, None, None] * second[None, :, None] * of_D * (D[1] - D[0])

    power = density(equal, equal, norm.pdf(D, EFFECT * se, se) + norm.pdf(D, -EFFECT * se, se))
    null = density(equal, equal, 2 * norm.pdf(D, 0, se))
    doubled = sum(density(*pair, 2 * norm.pdf(D, 0, se_double)) for pair in ((double, equal), (equal, double))) / 2

    def dual(log: np.ndarray) -> float:
        l0, l1 = np.exp(log)
        return float(np.maximum(0.0, power - l0 * null - l1 * doubled).sum() + SIZE * (l0 + l1))

    starts = ([-3.0, 1.5], [1.0, -1.0])
    return min(minimize(dual, x, method="Nelder-Mead", options={"xatol": 1e-2, "fatol": 1e-5, "maxiter": 150}).fun for x in starts)


if __name__ == "__main__":
    for k in (2, 3, 5):
        print(f"{k} seeds a row: power of at most {bound(k):.1%}", flush=True)
