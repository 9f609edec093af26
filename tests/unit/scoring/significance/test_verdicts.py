"""Each verdict from differences with known variances."""

import pytest

from orchestrator.scoring.significance.estimator import Difference, answer
from orchestrator.scoring.significance.mixed import Spread
from orchestrator.scoring.significance.verdicts import Expectation, Verdict, judge, p_of


def found(delta: float, se: float = 0.1, df: float = 20) -> Difference:
    """Three seeds each; no part of the variance is from sentences."""
    test = answer(delta, se**2, df)
    return Difference(delta, Spread(se**2 * 1.5, round(df), 10), 0.0, test, test)


def verdict(claim: float | None, difference: Difference | None, margin: float | None = 0.5, **more: float) -> Verdict:
    sign = -1.0 if claim is not None and claim < 0 else 1.0
    return judge(Expectation(sign, claim, claim is not None, margin), difference, **more)


@pytest.mark.parametrize(
    ("claim", "delta", "se", "word"),
    [
        (1.0, 0.9, 0.1, "confirmed"),
        (-1.0, -0.9, 0.1, "confirmed"),
        (2.0, 0.9, 0.1, "confirmed, smaller"),
        (-2.0, -0.9, 0.1, "confirmed, smaller"),
        (0.3, 2.0, 0.1, "confirmed, larger"),
        (1.0, -0.9, 0.1, "reversed"),
        (1.0, 0.1, 0.1, "no such effect"),  # at most 0.27, under 0.5
        (-1.0, 0.05, 0.1, "no such effect"),
        (0.4, 0.1, 0.1, "open"),  # at most 0.27, not under 0.2
        (1.0, 0.3, 0.4, "open"),
        (1.0, 0.9, 0.6, "open"),
        (None, 0.9, 0.1, "higher"),
        (None, -0.9, 0.1, "lower"),
        (None, 0.1, 0.1, "open"),
        (0.0, 0.1, 0.1, "confirmed"),
        (0.0, 0.9, 0.1, "reversed"),
        (0.0, -0.6, 0.1, "open"),  # significant; -0.81 to -0.39 is not wholly beyond 0.5
        (0.0, 0.4, 0.2, "open"),
    ],
)
def test_words(claim: float | None, delta: float, se: float, word: str) -> None:
    assert verdict(claim, found(delta, se)).word == word


def test_a_claim_about_another_metric_has_a_sign_and_no_size() -> None:
    words = [judge(Expectation(-1.0), found(delta)).word for delta in (-0.9, 0.9, -0.1)]
    assert words == ["confirmed", "reversed", "open"]


def test_what_a_verdict_says() -> None:
    assert verdict(1.0, None).word == "one seed"
    weak = verdict(0.5, found(0.2, 0.4))
    assert weak.word == "open" and "80 % power" in weak.reason and f"{weak.seeds} seeds would detect +0.50" in weak.reason
    assert verdict(0.01, found(0.2, 0.4), digits=3).reason.endswith("; 200 seeds would not detect +0.010 on this test set")
    assert verdict(1.0, found(0.3, 0.1), p=0.2).word == "no such effect", "after Holm it is no longer significant, but small"
    assert verdict(4.0, found(0.4, 0.3), None).word == "no such effect" and verdict(4.0, found(0.4, 0.3)).word == "open"


def test_the_row_has_to_beat_the_strongest_control() -> None:
    far, near, above = found(2.0), found(0.25), found(-0.25)
    assert p_of([far, near], [2.0, 0.25], 1.0) == near.other_sentences.p
    assert p_of([far, above], [2.0, -0.25], 1.0) == pytest.approx(2 * above.other_sentences.p), "the strongest was chosen"
    assert p_of([far, near], [2.0, 0.25], -1.0) == pytest.approx(2 * far.other_sentences.p) and p_of([far, None], [2.0, 0.1], 1.0) is None
    assert verdict(1.0, found(0.25, 0.13)).word == "no such effect" and verdict(1.0, found(0.25, 0.13), controls=3).word == "open"


def test_a_stricter_level_asks_for_more() -> None:
    """p is between the levels; the one-sided bound and the interval of no effect are wider too."""
    weak = found(0.9, 0.4)
    assert 0.0294 < weak.other_sentences.p < 0.05
    assert verdict(1.0, weak).word == "confirmed" and verdict(1.0, weak, level=0.0294).word == "open"
    assert verdict(-1.0, weak).word == "reversed" and verdict(-1.0, weak, level=0.02).word == "no such effect"
    small = found(0.3, 0.1)
    assert verdict(0.0, small, 0.49).word == "confirmed" and verdict(0.0, small, 0.49, level=0.0294).word == "open"
    loose, strict = (verdict(0.5, found(0.2, 0.4), 0.1, level=level) for level in (0.05, 0.0294))
    assert loose.seeds is not None and strict.seeds is not None and loose.seeds < strict.seeds and loose.reason != strict.reason
    assert verdict(1.34, found(0.9, 0.2)).word == "confirmed, smaller" and verdict(1.34, found(0.9, 0.2), level=0.02).word == "confirmed"
