"""BLEU from sums of statistics and the bootstrap's figures, in cases that tell the rules apart."""

import math

import numpy as np
import pytest

from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.paired_tests import bootstrap
from orchestrator.scoring.significance.sentence_statistics import bleu_statistics as statistics
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text

METRICS = ["sacrebleu", "multi-bleu", "mteval"]


def sums(system, reference, spec):
    return statistics(system, system, Text(reference), "test", spec).sum(axis=0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("system", "reference", "by_hand"),
    [
        # 5 of 8 words, all n-grams right: exp(1 - 8/5)
        ("a b c d e", "a b c d e f g h", 100 * math.exp(1 - 8 / 5)),
        # 8 words for 5: 5/8, 4/7, 3/6, 2/5 and no penalty
        ("a b c d e f g h", "a b c d e", 100 * (5 / 8 * 4 / 7 * 3 / 6 * 2 / 5) ** 0.25),
        # words alone are right: of 5, 4, 3, 2 n-grams 3, and 1/2, 1/4, 1/8 in place of none
        ("a x b y c", "a b c q r", 100 * (3 / 5 * (1 / 2) / 4 * (1 / 4) / 3 * (1 / 8) / 2) ** 0.25),
    ],
)
def test_bleu_of_sums_is_its_formula(metric, system, reference, by_hand):
    spec = ScoreSpec(metric=metric)
    by_hand = 0.0 if metric == "multi-bleu" and "x" in system else by_hand
    assert float(corpus_bleu(sums([system], [reference], spec), spec)) == pytest.approx(by_hand)
    assert score([system], [system], Text([reference]), "test", spec)["bleu"] == pytest.approx(by_hand)


def test_the_bootstraps_interval_holds_95_of_100_and_a_tie_is_no_win():
    """Two systems that differ in two sentences of twelve: many a resample has neither."""
    reference = [f"the {word} house stands in the {word} wood near a lake" for word in "abcdefghijkl"]
    baseline = [line.replace("near a", "by the") for line in reference]
    system = [reference[0], baseline[1].replace("house", "hut"), *baseline[2:]]
    spec = ScoreSpec()
    one, two = (statistics(lines, lines, Text(reference), "test", spec) for lines in (system, baseline))
    found = bootstrap(one, two, spec, samples=200, seed=5)
    draws = np.random.default_rng(5).choice(12, size=(200, 12), replace=True)
    deltas = sorted(float(corpus_bleu(one[draw].sum(axis=0), spec) - corpus_bleu(two[draw].sum(axis=0), spec)) for draw in draws)
    ties = sum(abs(d) < 1e-9 for d in deltas)
    assert ties > 5
    assert found.wins == pytest.approx(sum(d > 1e-9 for d in deltas) / 200)

    def quantile(share):
        place = share * 199
        below = int(place)
        return deltas[below] + (place - below) * (deltas[below + 1] - deltas[below])

    assert (found.low, found.high) == pytest.approx((quantile(0.025), quantile(0.975)), abs=1e-9)
