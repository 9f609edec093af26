"""Variances over seeds: pooled, outlying, unequal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from orchestrator.scoring.significance.estimator import answer
from orchestrator.scoring.significance.spread import Spread, Spreads, equal_variances, outliers, pooled

UNIT = np.array([-1.0, 0.0, 1.0])
"""Three seeds with variance 1."""


def test_pooling_and_unequal_variances() -> None:
    arms = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 4.5]), np.array([7.0])]
    assert pooled(arms) == Spread((2.0 + 0.125) / 3, 3, 2) and pooled(arms[2:]) is None
    other = [np.array([0.0, 1.0, 5.0, 9.0]), np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.5, 1.5])]
    assert equal_variances(other) == pytest.approx(stats.bartlett(*other).pvalue)
    assert equal_variances(arms[2:]) == 1.0 and equal_variances([np.ones(3), arms[0]]) == 0.0 and equal_variances([np.ones(3)] * 2) == 1.0


@pytest.mark.parametrize(("arms", "critical"), [(3, 0.942), (4, 0.864), (5, 0.788), (6, 0.722), (10, 0.536)])
def test_the_largest_variance_is_an_outlier_from_the_critical_values_of_iso_5725(arms: int, critical: float) -> None:
    """Of C, the largest variance over the sum of all, with three values each at 1 %."""

    def table(share: float) -> dict[int, np.ndarray]:
        return dict(enumerate([UNIT] * (arms - 1) + [UNIT * math.sqrt((arms - 1) * share / (1 - share))]))

    assert outliers(table(critical - 0.002)) == frozenset() and outliers(table(critical + 0.002)) == {arms - 1}


def test_outliers_are_found_one_after_another_and_of_two_arms_none() -> None:
    arms = {"a": UNIT, "b": 1.1 * UNIT, "c": 0.9 * UNIT, "d": UNIT, "e": UNIT, "wild": 400 * UNIT, "wide": 20 * UNIT, "one seed": UNIT[:1]}
    assert outliers(arms) == {"wild", "wide"}
    assert outliers({"a": UNIT, "wild": 1e6 * UNIT}) == frozenset()
    assert outliers(dict(enumerate([np.ones(3)] * 3 + [UNIT]))) == {3} and outliers(dict(enumerate([np.ones(3)] * 4))) == frozenset()


def test_a_row_that_varies_more_keeps_a_variance_of_its_own() -> None:
    arms = dict.fromkeys("abcde", UNIT) | {"wild": np.array([-30.0, 0.0, 33.0]), "more seeds": np.array([0.0, 1.0, 2.0, 3.0])}
    spreads = Spreads(arms)
    quiet = pooled([scores for name, scores in arms.items() if name != "wild"])
    assert spreads.apart == {"wild"} and spreads.shared == quiet == spreads.of("a") == spreads.between("a", "more seeds")
    assert spreads.of("wild") == pooled([arms["wild"]])
    between = spreads.between("wild", "more seeds")
    assert quiet is not None and between is not None and between.groups == 1
    parts = arms["wild"].var(ddof=1) / 3, quiet.variance / 4
    assert between.variance * (1 / 3 + 1 / 4) == pytest.approx(sum(parts))
    assert between.df == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / quiet.df))


def test_rows_whose_variances_differ_are_compared_by_welch() -> None:
    wide, narrow = np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.001, 0.999, 1.0005])
    spreads = Spreads({"wide": wide, "narrow": narrow})
    between, welch = spreads.between("wide", "narrow"), stats.ttest_ind(wide, narrow, equal_var=False)
    assert spreads.shared is None and between is not None
    found = answer(wide.mean() - narrow.mean(), between.variance * (1 / 3 + 1 / 4), between.df)
    assert (found.p, found.df) == pytest.approx((welch.pvalue, welch.df))
    assert Spreads({"a": UNIT[:1], "b": UNIT[:1]}).between("a", "b") is None


def test_other_runs_widen_what_is_pooled_and_not_what_is_apart() -> None:
    arms = dict.fromkeys("abcd", UNIT) | {"wild": 40 * UNIT}
    spreads = Spreads(arms, floor=Spread(2.0, 8))
    assert spreads.of("a") == Spread(1.5, 16, 4) and spreads.of("wild") == pooled([arms["wild"]])


def test_false_positives_and_power_beside_a_row_that_varies_more() -> None:
    """Of 1,000 simulated tables of 18 rows with three seeds, one with five times the spread of the others; no means differ."""
    generator, rejected, pooled_anyway, width = np.random.default_rng(4), np.zeros(2), np.zeros(2), np.zeros(2)
    for _ in range(1000):
        scores = [0.3 * generator.normal(size=3) for _ in range(17)] + [1.5 * generator.normal(size=3)]
        spreads, whole = Spreads(dict(enumerate(scores))), pooled(scores)
        assert whole is not None
        for i, row in enumerate((1, 17)):
            delta, spread = float(scores[row].mean() - scores[0].mean()), spreads.between(row, 0)
            assert spread is not None
            found, other = (answer(delta, each.variance * 2 / 3, each.df) for each in (spread, whole))
            rejected[i] += found.p < 0.05
            pooled_anyway[i] += other.p < 0.05
            width[i] += (found.high - found.low) / (other.high - other.low) / 1000
    assert 0.03 < rejected[0] / 1000 < 0.07 and rejected[1] / 1000 < 0.2, "the quiet row and the wild one"
    assert pooled_anyway[0] / 1000 < 0.02 and pooled_anyway[1] / 1000 > 0.35 and width[0] < 0.8, "what one pool for all would do"
