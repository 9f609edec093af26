"""Each verdict from differences with known variances."""

from __future__ import annotations

import math

import pytest

from orchestrator.scoring.significance.estimator import Difference, answer
from orchestrator.scoring.significance.mixed import Spread
from orchestrator.scoring.significance.verdicts import agreement, judge, prediction


def found(delta: float, se: float = 0.1, df: float = 20) -> Difference:
    """Three seeds each; no part of the variance is from sentences."""
    test = answer(delta, se**2, df)
    return Difference(delta, (3, 3), Spread(se**2 * 1.5, round(df), 10), se**2, 0.0, test, test)


@pytest.mark.parametrize(
    ("claim", "delta", "se", "word"),
    [
        (1.0, 0.9, 0.1, "reproduced"),
        (-1.0, -0.9, 0.1, "reproduced"),
        (2.0, 0.9, 0.1, "same direction"),
        (0.3, 2.0, 0.1, "same direction"),
        (1.0, -0.9, 0.1, "contradicted"),
        (1.0, 0.1, 0.1, "contradicted"),  # at most 0.27, under 0.5
        (-1.0, 0.05, 0.1, "contradicted"),
        (0.4, 0.1, 0.1, "underpowered"),  # at most 0.27, not under 0.2
        (1.0, 0.3, 0.4, "underpowered"),
        (1.0, 0.9, 0.6, "underpowered"),
    ],
)
def test_words(claim: float, delta: float, se: float, word: str) -> None:
    assert judge(claim, found(delta, se), margin=0.5).word == word


def test_a_margin_is_half_the_claim_where_none_is_given() -> None:
    assert judge(4.0, found(1.0, 0.3)).word == "same direction"
    assert judge(4.0, found(0.4, 0.3)).word == "contradicted" and judge(4.0, found(0.4, 0.3), margin=0.5).word == "underpowered"


@pytest.mark.parametrize(("delta", "se", "word"), [(0.1, 0.1, "reproduced"), (0.9, 0.1, "contradicted"), (0.4, 0.2, "underpowered")])
def test_a_claim_of_no_effect(delta: float, se: float, word: str) -> None:
    assert judge(0.0, found(delta, se), margin=0.5).word == word


def test_what_a_verdict_says() -> None:
    assert judge(1.0, None).word == "one seed"
    weak = judge(0.5, found(0.2, 0.4), margin=0.5)
    assert weak.word == "underpowered" and "80 % power" in weak.reason and f"{weak.seeds} seeds would find +0.50" in weak.reason
    assert judge(1.0, found(0.3, 0.1), p=0.2, margin=0.5).word == "contradicted", "after Holm it is no longer significant, but small"
    low, high = prediction(1.0, found(0.9, 0.1))
    assert (high - low) / 2 == pytest.approx(2.086 * math.sqrt(0.01 + 2 * 0.015), rel=1e-3) and (low + high) / 2 == pytest.approx(1.0)


def test_agreement_with_humans() -> None:
    """The figures of Kocmi et al. (2024)."""
    assert agreement("bleu", 1.0) == pytest.approx(0.64, abs=0.005) and agreement("bleu", -2.34) == pytest.approx(0.80, abs=0.005)
    assert agreement("chrf", 1.0) is None


def test_a_stricter_level_asks_for_more() -> None:
    """p is between the levels; the one-sided bound and the interval of no effect are wider too."""
    weak = found(0.9, 0.4)
    assert 0.0294 < weak.other_sentences.p < 0.05
    assert judge(1.0, weak).word == "reproduced" and judge(1.0, weak, level=0.0294).word == "underpowered"
    assert judge(-1.0, weak).word == judge(-1.0, weak, level=0.02).word == "contradicted", "by its sign, then by its bound"
    small = found(0.3, 0.1)
    assert "one-sided 95 %" in judge(1.0, found(0.1, 0.1)).reason and "one-sided 97 %" in judge(1.0, found(0.1, 0.1), level=0.0294).reason
    assert judge(0.0, small, margin=0.49).word == "reproduced" and judge(0.0, small, margin=0.49, level=0.0294).word == "underpowered"
    loose, strict = (judge(0.5, found(0.2, 0.4), margin=0.1, level=level) for level in (0.05, 0.0294))
    assert loose.seeds is not None and strict.seeds is not None and loose.seeds < strict.seeds and loose.reason != strict.reason
