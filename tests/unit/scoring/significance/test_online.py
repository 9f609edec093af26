"""LORD++: levels as computed by hand, and streams without an effect."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from scipy.stats import ttest_ind

from orchestrator.scoring.significance.online import ALPHA, START, level, share


def decisions(values: Iterable[float]) -> Iterator[tuple[float, bool]]:
    """(level, whether it is a discovery) of each p-value, in the order of arrival."""
    found: list[int] = []
    for number, p in enumerate(values, 1):
        bound = level(number, found)
        found += [number] if p <= bound else []
        yield bound, p <= bound


def test_the_shares_add_up_to_one() -> None:
    assert share(1) == pytest.approx(0.437490, abs=1e-6) and share(2) == pytest.approx(0.144318, abs=1e-6)
    beyond = 2e5**-0.6 / 0.6 / 2.2857657  # the integral from there on
    assert sum(map(share, range(1, 200_001))) + beyond == pytest.approx(1, abs=1e-5)


def test_levels_by_hand() -> None:
    """Discoveries 1 and 3 of 5: gamma 0.437490, 0.144318, 0.075432, 0.047607, 0.033313."""
    found = list(decisions([0.001, 0.9, 0.0001, 0.5, 0.04]))
    assert [accepted for _, accepted in found] == [True, False, True, False, False]
    g1, g2, g3, g4, g5 = 0.437490, 0.144318, 0.075432, 0.047607, 0.033313
    expected = [g1 * 0.025, (g2 + g1) * 0.025, (g3 + g2) * 0.025, (g4 + g3) * 0.025 + g1 * 0.05, (g5 + g4) * 0.025 + g2 * 0.05]
    assert [bound for bound, _ in found] == pytest.approx(expected, abs=1e-6)


def test_two_hundred_rows_that_change_only_the_seed() -> None:
    """All against one baseline of five seeds, so that their p-values depend on each other."""
    generator, any_accepted, shares = np.random.default_rng(1), [], []
    for _ in range(200):
        base, rows = generator.normal(size=5), generator.normal(size=(200, 5))
        accepted = [each for _, each in decisions(ttest_ind(rows, base, axis=1).pvalue)]
        any_accepted.append(any(accepted))
        shares.append(np.mean(accepted))
    assert np.mean(shares) <= ALPHA / 10 and np.mean(any_accepted) <= START + 3 * np.sqrt(START / 200)
