"""The bootstrap's figures in a case that tells the rules apart."""

import numpy as np
import pytest

from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.significance.paired_tests import bootstrap
from orchestrator.scoring.significance.sentence_statistics import bleu_statistics as statistics
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text


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
