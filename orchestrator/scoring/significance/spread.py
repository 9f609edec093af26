"""The variance of a score over seeds, and the rows of a table that it is pooled over.

Rows that train in the same way differ from seed to seed by about as much, and a variance that all of them share is known far better than
that of three seeds. A row that varies more than the others would widen the interval of each of them and have too narrow a one itself, so
that it keeps a variance of its own.

Shapes: an arm has the scores [k] of k seeds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, fdtr, fdtrc

Floats = npt.NDArray[np.float64]
Name = TypeVar("Name", bound=Hashable)

UNEQUAL = 0.01
"""Variances differ if a test says so below this p."""


@dataclass(frozen=True)
class Spread:
    """Variance of a score over seeds, with its degrees of freedom; `groups`: the number of arms that it is pooled over."""

    variance: float
    df: float
    groups: int = 1

    @property
    def sd(self) -> float:
        return math.sqrt(self.variance)

    def with_other(self, other: Spread) -> Spread:
        """Pooled with the variance of other runs, unless an F test says (p < 0.01) that the two differ."""
        ratio = self.variance / other.variance if other.variance else math.inf
        p = 2 * min(float(fdtr(self.df, other.df, ratio)), float(fdtrc(self.df, other.df, ratio)))
        if p < UNEQUAL:
            return self
        df = self.df + other.df
        return Spread((self.variance * self.df + other.variance * other.df) / df, df, self.groups)


def pooled(arms: Sequence[Floats]) -> Spread | None:
    """The variance pooled over arms of scores [k]; those with one seed add nothing. None without any of two seeds."""
    known = [scores for scores in arms if len(scores) > 1]
    if not known:
        return None
    squares, df = (sum(each) for each in zip(*map(_squares, known), strict=True))
    return Spread(squares / df, df, len(known))


def unpooled(a: Spread, k_a: int, b: Spread, k_b: int) -> Spread:
    """What stands for s^2 in the difference of arms with a variance each: V1 = s_A^2 / k_A + s_B^2 / k_B, df by Satterthwaite (1946)."""
    parts = [(a.variance / k_a, a.df), (b.variance / k_b, b.df)]
    v1 = sum(part for part, _ in parts)
    df = v1**2 / sum(part**2 / n for part, n in parts) if v1 else a.df + b.df
    return Spread(v1 / (1 / k_a + 1 / k_b), df)


class Spreads(Generic[Name]):
    """The variances of arms that were scored alike, from the scores [k] of each. floor: the variance of other runs like them.

    shared: the variance of the arms that are pooled; None without an arm of two seeds, or if they still differ without those in `apart`
    (Bartlett's test). apart: the arms that vary more than the others.
    """

    def __init__(self, arms: Mapping[Name, Floats], floor: Spread | None = None) -> None:
        self.arms = arms
        self.apart = outliers(arms)
        rest = [scores for name, scores in arms.items() if name not in self.apart]
        self.shared = None if equal_variances(rest) < UNEQUAL else pooled(rest)
        if self.shared is not None and floor is not None:
            self.shared = self.shared.with_other(floor)

    def of(self, name: Name) -> Spread | None:
        """The variance of an arm: the shared one, or else its own; None if it has one seed and no other has two."""
        return pooled([self.arms[name]]) if self.shared is None or name in self.apart else self.shared

    def between(self, a: Name, b: Name) -> Spread | None:
        """What stands for s^2 in the difference of two arms."""
        of_a, of_b = self.of(a), self.of(b)
        if of_a is None or of_b is None:
            return None
        return of_a if of_a is of_b else unpooled(of_a, len(self.arms[a]), of_b, len(self.arms[b]))


def outliers(arms: Mapping[Name, Floats]) -> frozenset[Name]:
    """Arms with outlying variances: Cochran's test (1941) for one after another, at 1 % as in ISO 5725-2.

    For arms with unequal numbers of seeds (R. U. E. 't Lam 2010): G times the p-value of an F test of one of G arms against all the others.
    Of two arms none is an outlier.
    """
    left = {name: _squares(scores) for name, scores in arms.items() if len(scores) > 1}
    found = set[Name]()
    while len(left) > 2:
        squares, df = np.array(list(left.values())).T
        rest, others = (squares.sum() - squares).clip(0), df.sum() - df
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where(squares > 0, fdtrc(df, others, (squares / df) / (rest / others)), 1.0)
        worst = int(p.argmin())
        if p[worst] * len(left) >= UNEQUAL:
            break
        name = list(left)[worst]
        del left[name]
        found.add(name)
    return frozenset(found)


def _squares(scores: Floats) -> tuple[float, float]:
    """(sum of squares about the mean, degrees of freedom)."""
    return float(((scores - scores.mean()) ** 2).sum()), len(scores) - 1.0


def equal_variances(arms: Sequence[Floats]) -> float:
    """The p-value of Bartlett's test (1937) that all arms have one variance; 1 with fewer than two arms, 0 if only some do not vary."""
    known = [scores for scores in arms if len(scores) > 1]
    whole = pooled(known)
    if len(known) < 2 or whole is None or whole.variance == 0:
        return 1.0
    df, variances = np.array([len(scores) - 1.0 for scores in known]), np.array([scores.var(ddof=1) for scores in known])
    if not variances.all():
        return 0.0
    statistic = whole.df * math.log(whole.variance) - float((df * np.log(variances)).sum())
    correction = 1 + (float((1 / df).sum()) - 1 / whole.df) / (3 * (len(known) - 1))
    return float(chdtrc(len(known) - 1, max(statistic, 0.0) / correction))
