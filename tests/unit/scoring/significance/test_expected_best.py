"""The expected best of n draws against all subsets, and what a search may still gain."""

from itertools import combinations
from statistics import fmean

import pytest

from orchestrator.scoring.significance.estimator import Difference, Spread, answer
from orchestrator.scoring.significance.expected_best import expected_best, gap

VALUES = [3.1, 2.4, 2.9, 2.2, 5.0]


@pytest.mark.parametrize("larger", [False, True])
def test_the_expected_best_is_the_mean_over_all_subsets(larger: bool) -> None:
    best = max if larger else min
    wanted = [fmean(best(some) for some in combinations(VALUES, n)) for n in range(1, 6)]
    assert expected_best(VALUES, larger=larger) == pytest.approx(wanted)


def test_the_gap_is_what_the_other_half_of_the_draws_changes_in_a_difference() -> None:
    other = [2.5, 2.0, 4.0, 2.1, 2.2]
    halves = [(0, *half) for half in combinations(range(1, 5), 2)]
    gains = [[min(own[i] for i in half) - min(own) for half in halves] for own in (VALUES, other)]
    wanted = fmean((a - b) ** 2 for a, b in zip(*gains, strict=True)) ** 0.5
    assert wanted > 0 and gap(VALUES, other) == pytest.approx(wanted)


def test_rows_that_gain_the_same_by_the_same_trials_have_no_gap() -> None:
    assert gap(VALUES, [value + 1.0 for value in VALUES]) == pytest.approx(0.0)
    assert gap(VALUES, VALUES[::-1]) > 0.1, "other trials of the same values"
    assert gap([1.0, *VALUES], [1.5, *VALUES[::-1]]) == 0.0, "best as written, which every search has"
    assert gap([1.0, 0.5], [1.0, 0.7]) == pytest.approx(0.2), "of one draw no half is known"


def test_trials_that_ended_early_count_as_the_worst() -> None:
    inf = float("inf")
    assert gap([2.0, inf, 3.0], [0.0] * 3) == gap([2.0, 3.0, 3.0], [0.0] * 3)
    assert gap([2.0, inf, 3.0, 1.5], [1.0, inf, 2.0, 4.0]) == gap([2.0, 3.0, 1.5], [1.0, 2.0, 4.0]) > 0, "early for both"
    assert gap([inf, inf], [2.0, 1.0]) == gap([0.0, 0.0], [2.0, 1.0]) > 0, "no trial of the row finished"


def test_a_difference_with_the_variance_of_the_choice_is_wider() -> None:
    same, other = answer(1.0, 0.0, 8.0), answer(1.0, 0.04, 8.0)
    plain = Difference(1.0, Spread(0.1, 8.0), 0.0, same, other)
    wide = plain.at(added=0.12)
    assert wide.delta == 1.0 and wide.other_sentences.se == pytest.approx(0.4) and wide.same_sentences.se == pytest.approx(0.12**0.5)
    assert wide.at(0.01).other_sentences.se == pytest.approx(0.4), "looks keep it"
    assert wide.other_sentences.p > plain.other_sentences.p and wide.sentences == pytest.approx(0.12), "seeds do not reduce it"
