"""The expected best of n draws against all subsets, and what another search would change."""

from itertools import combinations
from statistics import fmean

import numpy as np
import pytest

from orchestrator.scoring.significance.estimator import Difference, Spread, answer
from orchestrator.scoring.significance.expected_best import choice_variance, expected_best
from orchestrator.scoring.significance.verdicts import OPEN, Expectation, judge

VALUES = [3.1, 2.4, 2.9, 2.2, 5.0]


@pytest.mark.parametrize("larger", [False, True])
def test_the_expected_best_is_the_mean_over_all_subsets(larger: bool) -> None:
    best = max if larger else min
    wanted = [fmean(best(some) for some in combinations(VALUES, n)) for n in range(1, 6)]
    assert expected_best(VALUES, larger=larger) == pytest.approx(wanted)


def variance(row: list[float], other: list[float], scores: list[list[float]] | None = None) -> float:
    return choice_variance([row, other], scores or [row, other])[0]


def test_the_variance_of_the_choice_is_what_other_draws_change_in_a_difference() -> None:
    """With two draws there are four equally likely searches: the first draw twice, both (twice), the second twice."""
    losses, scores = [[3.0, 2.0, 1.0], [3.0, 4.0, 2.5]], [[10.0, 20.0, 50.0], [11.0, 12.0, 13.0]]
    changes = [(20 - 50) - (11 - 13), 0.0, 0.0, 0.0]
    found, df = choice_variance(losses, scores)
    assert found == pytest.approx(np.square(changes).mean(), rel=0.1) and df == 2


def test_rows_that_gain_the_same_by_the_same_draws_have_no_variance_of_the_choice() -> None:
    assert variance(VALUES, [value + 1.0 for value in VALUES]) == pytest.approx(0.0)
    assert variance(VALUES, VALUES[::-1]) > 0.01, "other trials of the same values"
    assert variance([1.0, *VALUES], [1.5, *VALUES[::-1]]) == 0.0, "best as written, which every search has"
    assert variance([1.0, 0.5], [1.0, 0.7]) == 0.0 and variance([1.0], [2.0]) == 0.0


def test_the_variance_of_the_choice_is_in_the_metric_that_is_judged() -> None:
    """The loss hardly distinguishes two trials whose BLEU differs by 2. A difference of both rows' BLEU changes nothing."""
    losses = [[2.0, 1.5, 1.501], [2.0, 1.5, 1.501]]
    assert variance(*losses) < 1e-5 < 0.5 < variance(*losses, [[10.0, 30.0, 28.0], [10.0, 30.0, 30.0]])
    shifted = [[10.0, 30.0, 28.0], [0.0, 20.0, 20.0]]
    assert variance(*losses, shifted) == variance(*losses, [[10.0, 30.0, 28.0], [10.0, 30.0, 30.0]])


def test_trials_that_ended_early_are_not_chosen() -> None:
    inf, nan = float("inf"), float("nan")
    assert variance([2.0, inf, 1.0], [0.0] * 3) == variance([2.0, 3.0, 1.0], [0.0] * 3) > 0
    assert variance([2.0, inf, 1.0], [0.0] * 3, [[5.0, nan, 7.0], [0.0] * 3]) > 0, "its score is not needed"
    assert variance([inf, inf, 1.0, 3.0], [0.0] * 4) > 0, "without the row as written, the worst one"
    assert variance([inf, inf], [2.0, 1.0]) == 0.0 == variance([inf, inf], [inf, inf]), "no trial of the row finished"
    assert choice_variance([[2.0, inf, 1.0, inf], [2.0, 1.0, inf, inf]], [[0.0] * 4] * 2)[1] == 2, "draws that a row finished"


def test_an_unknown_score_of_a_trial_makes_the_variance_infinite_and_the_verdict_open() -> None:
    losses = [[2.0, 1.0], [2.0, 1.0]]
    found = choice_variance(losses, [[30.0, 31.0], [30.0, float("nan")]])
    assert found[0] == float("inf")
    made = judge(Expectation(1.0, claimed=False), Difference(9.0, Spread(0.1, 8.0), 0.0, *[answer(9.0, 0.1, 8.0)] * 2).with_choice(*found))
    assert made.word == OPEN and "did not score its trials" in made.reason and made.seeds is None


def test_a_difference_with_the_variance_of_the_choice_is_wider() -> None:
    same, other = answer(1.0, 0.0, 8.0), answer(1.0, 0.04, 40.0)
    plain = Difference(1.0, Spread(0.1, 8.0), 0.0, same, other)
    wide = plain.with_choice(0.12, 4.0)
    assert wide.delta == 1.0 and wide.other_sentences.se == pytest.approx(0.4) and wide.same_sentences.se == pytest.approx(0.12**0.5)
    assert wide.same_sentences.df == 4 and wide.other_sentences.df == pytest.approx(0.16**2 / (0.04**2 / 40 + 0.12**2 / 4))
    assert wide.at(0.01).other_sentences.se == pytest.approx(0.4), "looks keep it"
    assert wide.other_sentences.p > plain.other_sentences.p
    reason = judge(Expectation(1.0, claimed=False), plain.with_choice(1.0, 4.0)).reason
    assert reason.endswith("200 seeds would not detect +1: the choice of the searches has 96 % of the variance; more trials reduce it")
