"""The variance of scores over seeds: a mixed model of a table's rows, with moderated variances.

    y_rj = mu_r + c_d(rj) + b_j + e_rj    score of row r with seed j;  b_j ~ N(0, tau^2),  e_rj ~ N(0, sigma_r^2)

b_j is the effect of a seed on every row that is trained with it, for example through the order of its batches. It cancels in the difference
of two rows with the same seeds. c_d is the effect of a kind of device (the block) on every run on it. It is known only if some row ran on
both devices. tau^2 maximises the restricted likelihood (REML, Patterson and Thompson 1971) and may be zero. With rows scaled by their
sigma_r, and P the projection of this likelihood,

    e = P y,    s_r^2 = sigma_r^2 sum_j e_rj^2 / d_r,    d_r = sum_j P_rj,rj

are the residuals, the variance of each row and its degrees of freedom. Variances from three seeds are unreliable, so they are moderated
(Smyth 2004, as in limma). With s_0^2, the variance pooled over the rows, each row uses

    s~_r^2 = (d_0 s_0^2 + d_r s_r^2) / (d_0 + d_r)    with d_0 + d_r degrees of freedom,

which is its sigma_r^2 in the next of `ROUNDS` rounds. d_0 is 1/2 (`WEIGHT`), and less for a row that varies far more than the others. Few
seeds cannot distinguish rows with equal variances from a table in which one row varies twice as much. With a larger d_0, differences of
that row would be significant too often (docs/results/calibration.md).

Shapes: n scores of R rows over J seeds.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from scipy.special import chdtrc

from orchestrator.ledger.statistics import Floats

Name = TypeVar("Name", bound=Hashable)
Seeds = Mapping[int, float]
"""Seed -> score."""

WEIGHT = 0.5
"""d_0: the number of degrees of freedom that the other rows of a table add to a row's own."""
RARE = 0.05
"""Probability below which a row's variance, in a table with equal variances, makes the row count as less typical."""
ROUNDS = 3
TINY = 1e-12


@dataclass(frozen=True)
class Spread:
    """A variance over seeds with its degrees of freedom; `groups`: the number of rows that contribute to it."""

    variance: float
    df: float
    groups: int = 1

    @property
    def sd(self) -> float:
        return math.sqrt(self.variance)


def degrees(rows: int, k: int) -> float:
    """Returns the degrees of freedom of the difference of two rows in a table of `rows` rows with k seeds each."""
    return min(max(2, rows) * (k - 1.0), 2 * (WEIGHT + k - 1))


def own(scores: Sequence[float] | Floats) -> Spread | None:
    """Returns the plain variance of one row's scores [k]; None for fewer than two."""
    return Spread(float(np.var(scores, ddof=1)), len(scores) - 1.0) if len(scores) > 1 else None


def unpaired(a: Floats, b: Floats) -> Spread | None:
    """Returns s^2 of V1 = s^2 (1/k_A + 1/k_B) for the scores [k_A], [k_B] of two systems without a model in common.

    Each has its own variance; the degrees of freedom are Welch's (1947). None for fewer than two scores.
    """
    of_a, of_b = own(a), own(b)
    if of_a is None or of_b is None:
        return None
    part_a, part_b = of_a.variance / len(a), of_b.variance / len(b)
    v1 = part_a + part_b
    df = v1**2 / (part_a**2 / of_a.df + part_b**2 / of_b.df) if v1 else of_a.df + of_b.df
    return Spread(v1 / (1 / len(a) + 1 / len(b)), df)


class MixedModel(Generic[Name]):
    """The model of the rows that were scored alike.

    floor: variance of other runs of the same recipe, which counts as one more row.
    blocks: row -> seed -> the kind of device that trained it. Absent: one kind. "": unknown, nothing is subtracted.

    tau2: variance of the seeds' effects. moderated: row -> s~^2, empty if no row has two seeds. prior: s_0^2.
    """

    def __init__(
        self, rows: Mapping[Name, Seeds], floor: Spread | None = None, blocks: Mapping[Name, Mapping[int, str]] | None = None
    ) -> None:
        self.blocks = Blocks(rows, blocks or {})
        self.rows = rows = {name: self.blocks.adjusted(name, seeds) for name, seeds in rows.items()}
        self.tau2, self.moderated, self.prior = 0.0, dict[Name, Spread](), Spread(0.0, 0.0, 0)
        several = {name: seeds for name, seeds in rows.items() if len(seeds) > 1}
        if not several and floor is None:
            return
        residual, of_floor = dict[Name, Spread](), [floor] if floor is not None else []
        for _ in range(ROUNDS):
            residual, self.tau2 = _fit(several, {name: self.moderated[name].variance for name in several if self.moderated})
            self.prior = _prior([*residual.values(), *of_floor])
            self._total = sum(each.df for each in (*residual.values(), *of_floor))
            self.moderated = {name: self._moderate(residual.get(name, Spread(0.0, 0.0))) for name in rows}

    def _moderate(self, of: Spread) -> Spread:
        prior = WEIGHT * _typical(of, self.prior)
        df = prior + of.df
        return Spread((prior * self.prior.variance + of.df * of.variance) / df, min(df, self._total), self.prior.groups)

    def of(self, name: Name) -> Spread | None:
        """Returns the moderated variance of a row; None if no row has two seeds."""
        return self.moderated.get(name)

    def between(self, a: Name, b: Name) -> Spread | None:
        """Returns s^2 of V1 = s^2 (1/k_A + 1/k_B), the variance of the difference of two rows' means over seeds.

        V1 = s~_A^2 / k_A + s~_B^2 / k_B + tau^2 sum_j (w_Aj - w_Bj)^2, with w = 1/k if the row has seed j, else 0, plus the variance of the
        correction for devices. Degrees of freedom are Satterthwaite's (1946), at most those of the table.
        """
        of_a, of_b = self.of(a), self.of(b)
        if of_a is None or of_b is None:
            return None
        seeds_a, seeds_b = self.rows[a], self.rows[b]
        part_a, part_b = of_a.variance / len(seeds_a), of_b.variance / len(seeds_b)
        unshared = sum(((j in seeds_a) / len(seeds_a) - (j in seeds_b) / len(seeds_b)) ** 2 for j in {*seeds_a, *seeds_b})
        residual = part_a + part_b
        df = residual**2 / (part_a**2 / of_a.df + part_b**2 / of_b.df) if residual else self._total
        share = 1 / len(seeds_a) + 1 / len(seeds_b)
        v1 = residual + self.tau2 * unshared + self.blocks.between(a, b)[1]
        return Spread(v1 / share, float(min(df, self._total)), self.prior.groups)


class Blocks(Generic[Name]):
    """The effect c_d of each kind of device on a score, by least squares within rows that ran on several kinds; zero without such rows."""

    def __init__(self, rows: Mapping[Name, Seeds], kinds: Mapping[Name, Mapping[int, str]]) -> None:
        self.kinds = kinds = {name: each for name, each in kinds.items() if "" not in each.values()}
        self.names = sorted({kind for each in kinds.values() for kind in each.values()})[1:]
        D = len(self.names)
        self.c, self.covariance, self.known = np.zeros(D), np.zeros((D, D)), np.zeros((D, D))
        several = [(name, list(seeds)) for name, seeds in rows.items() if name in kinds and len(seeds) > 1]
        if not self.names or not several:
            return
        X = np.concatenate([(own := self._design(name, seeds)) - own.mean(axis=0) for name, seeds in several])
        y = np.concatenate([(own := np.array([rows[name][seed] for seed in seeds])) - own.mean() for name, seeds in several])
        if (df := len(y) - len(several) - int(np.linalg.matrix_rank(X))) > 0:
            inverse = np.linalg.pinv(X.T @ X)  # kinds that no row connects to another one have no difference
            self.c, self.known = inverse @ X.T @ y, inverse @ X.T @ X
            self.covariance = inverse * float(((y - X @ self.c) ** 2).sum()) / df

    def _design(self, name: Name, seeds: Sequence[int]) -> Floats:
        """Returns indicators [k, D - 1] of all kinds except the first."""
        return np.array([[float(self.kinds[name][seed] == kind) for kind in self.names] for seed in seeds])

    def adjusted(self, name: Name, seeds: Seeds) -> Seeds:
        """Returns a row's scores, corrected to the first kind of device."""
        if not self.names or name not in self.kinds:
            return seeds
        return dict(zip(seeds, np.array(list(seeds.values())) - self._design(name, list(seeds)) @ self.c, strict=True))

    def between(self, a: Name, b: Name) -> tuple[float, float]:
        """Returns (correction to subtract from the plain difference of two rows' means, its variance); zeros if the effects are unknown."""
        if not self.names or a not in self.kinds or b not in self.kinds:
            return 0.0, 0.0
        share_a, share_b = (self._design(name, list(self.kinds[name])).mean(axis=0) for name in (a, b))
        unlike = share_a - share_b
        if not np.allclose(self.known @ unlike, unlike, atol=1e-6):
            return 0.0, 0.0
        return float(unlike @ self.c), float(unlike @ self.covariance @ unlike)


def _fit(rows: Mapping[Name, Seeds], variances: Mapping[Name, float]) -> tuple[dict[Name, Spread], float]:
    """Returns (row -> s_r^2 with d_r, tau^2) for rows with at least two seeds. variances: sigma_r^2 up to a factor; absent: equal."""
    if not rows:
        return {}, 0.0
    names, seeds = list(rows), sorted({seed for each in rows.values() for seed in each})
    sigma_R = np.sqrt([variances.get(name) or 1.0 for name in names])
    row = np.array([i for i, name in enumerate(names) for _ in rows[name]])
    scale = sigma_R[row]
    X = np.eye(len(names))[row]
    Z = np.array([[float(seed == other) for other in seeds] for name in names for seed in sorted(rows[name])]) / scale[:, None]
    y = np.array([rows[name][seed] for name in names for seed in sorted(rows[name])]) / scale
    k = X.sum(axis=0)
    y, Z = y - X @ (X.T @ y / k), Z - X @ (X.T @ Z / k[:, None])  # centred at the means of the rows
    lam, vectors = np.linalg.eigh(Z.T @ Z)
    vectors, lam = vectors[:, lam > lam.max(initial=0.0) * 1e-9], lam[lam > lam.max(initial=0.0) * 1e-9]
    Q = Z @ vectors / np.sqrt(lam)  # orthonormal contrasts with variance sigma^2 (1 + rho lam)
    u = Q.T @ y
    df, rest = len(y) - len(names), max(0.0, float(y @ y - u @ u))
    rho = _ratio(u**2, lam / lam.mean(), rest, df) / lam.mean()
    shrink = rho * lam / (1 + rho * lam)
    e = y - Q @ (shrink * u)
    d = X.T @ (1 - 1 / k[row] - Q**2 @ shrink)
    found = sigma_R**2 * (X.T @ e**2) / d
    sigma2 = (float((u**2 / (1 + rho * lam)).sum()) + rest) / df
    return {name: Spread(float(found[i]), float(d[i])) for i, name in enumerate(names)}, rho * sigma2


def _ratio(u2: Floats, lam: Floats, rest: float, df: int) -> float:
    """Returns rho = tau^2 / sigma^2 at the maximum of the restricted likelihood, with sigma profiled out; 0 if rows share no seeds."""

    def deviance(log_rho: float) -> float:
        scale = 1 + math.exp(log_rho) * lam
        return float(np.log(scale).sum() + df * np.log((u2 / scale).sum() + rest))

    if df <= len(lam) or rest <= TINY * float(u2.sum()):
        return 0.0
    from scipy.optimize import minimize_scalar  # deferred: slow to import

    best = minimize_scalar(deviance, bounds=(-12.0, 8.0), method="bounded", options={"xatol": 1e-6})
    return math.exp(best.x) if best.fun < df * math.log(float(u2.sum()) + rest) else 0.0


def _prior(known: Sequence[Spread]) -> Spread:
    """Returns s_0^2 with the degrees of freedom of its rows: the variance pooled over rows, each weighted by `_typical`."""
    variance, df = np.array([[each.variance, each.df] for each in known]).T
    pool = Spread(float(df @ variance / df.sum()), float(df.sum()), len(known))
    for _ in range(ROUNDS):
        weight = df * [_typical(each, pool) for each in known]
        pool = Spread(float(weight @ variance / weight.sum()), float(weight.sum()), len(known))
    return pool


def _typical(of: Spread, pool: Spread) -> float:
    """Returns how typical a row is of its table, 0 to 1; 1 unless fewer than `RARE` of such tables have a row that varies as much.

    After Phipson et al. (2016).
    """
    if not of.df or not pool.variance:
        return 1.0
    return min(1.0, pool.groups * float(chdtrc(of.df, of.df * of.variance / pool.variance)) / RARE)
