"""The calibration script on simulated seeds, whose rates are known."""

import calibration
import numpy as np
import pytest

from orchestrator.scoring.significance.estimator import Arm


def mean(sums):
    return sums[..., 0] / sums[..., 1]


def seeds(effect: float, draw: int) -> list[Arm]:
    """Twenty seeds with standard deviation 0.3, of which a tenth of the variance is noise of 60 sentences."""
    generator = np.random.default_rng(draw)
    shared, arms = np.random.default_rng(0).normal(size=60), []
    for _ in range(20):
        values = 30 + effect + shared + 0.28 * generator.normal() + 0.7 * generator.normal(size=60)
        arms.append(Arm.of([np.stack([values, np.ones(60)], axis=1)], mean))
    return arms


def test_rates_without_and_with_an_effect() -> None:
    base = seeds(0.0, 1)
    null = calibration.null(base, 3, 60)
    assert null["differences"] == 180
    for question in calibration.QUESTIONS:
        assert null[question]["false_positives"] < 0.12 and null[question]["coverage"] == pytest.approx(
            1 - null[question]["false_positives"]
        )
    weak, strong = (calibration.planted(base, seeds(effect, 2), 3, 30) for effect in (0.2, 2.0))
    assert strong["same_sentences"] == 1.0 and weak["same_sentences"] < 0.7 and strong["effect"] == pytest.approx(2.0, abs=0.3)
    assert 0.5 < strong["mde"] < 1.2
    assert calibration.agent(base, 3, 2)["mean"] <= 1
    looks = calibration.two_looks(base, seeds(2.0, 2), 20)
    assert looks["significant"] > 0.9 and looks["null"] < 0.2 and 3 <= looks["seeds"] <= 6
