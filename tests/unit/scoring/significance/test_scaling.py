"""Slopes and speed-ups of curves that are known."""

import math
from dataclasses import replace

import pytest

from orchestrator.scoring.significance.estimator import answer
from orchestrator.scoring.significance.scaling import Loss, slope, speed_up


def loss_at(compute: float) -> float:
    return 1.2 + 0.9 * (compute / 1e12) ** -0.3


BASE = [Loss(loss_at(c), 0.002, c, c / 1e9) for c in (1e12, 4e12, 1.6e13)]


@pytest.mark.parametrize("factor", [1.0, 1.5, 3.0])
def test_a_row_with_the_loss_of_more_compute(factor: float) -> None:
    found = speed_up(BASE, Loss(loss_at(4e12 * factor), 0.002, 4e12, 8e3), at=1)
    assert found is not None and not found.beyond
    assert found.compute == pytest.approx(factor, rel=1e-6) and found.time == pytest.approx(factor / 2, rel=1e-6)
    assert found.low < factor < found.high < 1.1 * factor, "seeds that hardly vary give a narrow interval"
    wider = speed_up([replace(each, se=0.01) for each in BASE], Loss(loss_at(4e12 * factor), 0.01, 4e12, 8e3), at=1)
    assert wider is not None and wider.high - wider.low > 3 * (found.high - found.low)
    elsewhere = speed_up(
        [replace(each, machines=frozenset("a")) for each in BASE], Loss(loss_at(4e12 * factor), 0.002, 4e12, 8e3, frozenset("b")), at=1
    )
    assert elsewhere == replace(found, time=None), "seconds of two machines"


def test_outside_of_the_sizes_and_below_the_curve() -> None:
    far = speed_up(BASE, Loss(loss_at(1e14), 0.0, 1.6e13, 1.0), at=2)
    assert far is not None and far.beyond and far.compute == pytest.approx(1e14 / 1.6e13, rel=1e-3)
    never = speed_up(BASE, Loss(1.1, 0.002, 4e12, 1.0), at=1)
    assert never is not None and math.isinf(never.compute) and math.isinf(never.high)


def test_no_curve_of_two_sizes_or_of_losses_that_rise() -> None:
    assert speed_up(BASE[:2], BASE[0], at=0) is None
    rising = [replace(each, mean=-each.mean, se=0.0) for each in BASE]
    assert speed_up(rising, rising[0], at=0) is None
    known = [speed_up([replace(each, se=se) for each in BASE], BASE[1], at=1) is not None for se in (0.02, 0.15, 0.3)]
    assert known == [True, True, False], "of the draws, none, 0.6 % and 8 % have no curve that falls"


def test_the_slope_is_that_of_weighted_least_squares() -> None:
    precise, vague = answer(0.0, 0.01, 12), answer(0.0, 100.0, 4)
    straight = slope([1e6, 2e6, 4e6], [0.1, 0.3, 0.5], [precise] * 3)
    assert straight is not None and straight[0] == pytest.approx(0.2)
    assert straight[1].se == pytest.approx((0.01 / 2) ** 0.5) and straight[1].df == 12
    bent = slope([1e6, 2e6, 4e6], [0.1, 0.3, 9.0], [precise, precise, vague])
    assert bent is not None and bent[0] == pytest.approx(0.2, abs=0.01) and bent[1].df == 4
    assert slope([1e6, 1e6], [0.1, 0.3], [precise] * 2) is None
