"""The estimator against its definition, simulations with known variances, and sacreBLEU's paired bootstrap."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from scipy import stats

from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.significance.estimator import Arm, detectable, difference, holm, seeds_needed
from orchestrator.scoring.significance.mixed import Spread
from orchestrator.scoring.significance.paired_tests import compare
from orchestrator.scoring.significance.sentence_statistics import bleu_statistics
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text

SPEC = ScoreSpec()


def arm(values) -> Arm:
    """Seeds [k, N] scored by their mean."""
    sums = [np.stack([seed, np.ones_like(seed)], axis=1) for seed in np.asarray(values, dtype=float)]
    return Arm.of(sums, lambda of_all: of_all[..., 0] / of_all[..., 1])


def noise(generator, k: int, n: int, seeds: float, sentences: float):
    """Values [k, N]: a difficulty of each sentence, an offset of each seed, and noise of each seed and sentence."""
    return generator.normal(size=(1, n)) + seeds * generator.normal(size=(k, 1)) + sentences * generator.normal(size=(k, n))


def test_the_parts_of_the_variance_are_those_of_the_definition() -> None:
    generator = np.random.default_rng(3)
    shared = generator.normal(size=(1, 400))
    a = shared + 0.3 * generator.normal(size=(1, 400)) + generator.normal(size=(4, 400))  # an effect that differs by sentence
    b = shared + generator.normal(size=(3, 400))
    found = difference(arm(a), arm(b), Spread(0.04, 7))
    assert found.delta == pytest.approx(a.mean() - b.mean()) and found.same_sentences.se**2 == pytest.approx(0.04 * (1 / 4 + 1 / 3))
    within = sum(((x - x.mean(0)).var(1, ddof=1)).sum() for x in (a, b)) / (7 - 2) / 400
    v2 = (a.mean(0) - b.mean(0)).var() / 400
    assert found.sentences == pytest.approx(v2 - within * (1 / 4 + 1 / 3), abs=0.05 * v2), "2,000 resamples are within some per cent"
    v, test = (v1 := found.same_sentences.se**2) + found.sentences, found.other_sentences
    assert test.se == pytest.approx(math.sqrt(v)) and test.df == pytest.approx(v**2 / (v1**2 / 7))
    assert test.p == pytest.approx(2 * stats.t.sf(abs(found.delta) / test.se, test.df))
    half = stats.t.ppf(0.975, test.df) * test.se
    assert (test.low, test.high) == pytest.approx((found.delta - half, found.delta + half))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(2, 4))
def test_the_order_of_sentences_and_seeds_changes_nothing(draw: int, k: int, other: int) -> None:
    generator = np.random.default_rng(draw)
    counts = [generator.integers(1, 9, size=(n, 30, 10)) for n in (k, other)]
    score = lambda sums: corpus_bleu(sums, SPEC)  # noqa: E731
    plain = difference(*(Arm.of(list(each), score) for each in counts), Spread(0.1, 5))
    sentences = generator.permutation(30)
    mixed = difference(*(Arm.of([each[i][sentences] for i in generator.permutation(len(each))], score) for each in counts), Spread(0.1, 5))
    for one, again in ((plain.same_sentences, mixed.same_sentences), (plain.other_sentences, mixed.other_sentences)):
        assert one.__dict__ == pytest.approx(again.__dict__, rel=1e-9)


def test_one_seed_gives_no_answer() -> None:
    two = np.random.default_rng(0).normal(size=(2, 9))
    assert difference(arm(two[:1]), arm(two), Spread(1.0, 9)) is None and difference(arm(two), arm(two[1:]), Spread(1.0, 9)) is None
    assert difference(arm(two), arm(two), None) is None


def test_seeds_that_are_identical_give_the_paired_bootstrap() -> None:
    """Then V1 and Ve are 0, and what is left is the bootstrap of Koehn (2004). sacreBLEU's p-value counts one side of it."""
    words, generator = ["a", "b", "c", "d", "e", "f", "g", "h"], np.random.default_rng(8)
    references = [" ".join(generator.choice(words, size=12)) for _ in range(200)]

    def system(errors: float) -> list[str]:
        return [" ".join(w if generator.random() > errors else "x" for w in line.split()) for line in references]

    lines, metric = [system(0.30), system(0.31)], BLEU(tokenize="none")
    counts = [bleu_statistics(each, each, Text(references), "test", SPEC) for each in lines]
    found = difference(*(Arm.of([each] * 3, lambda sums: corpus_bleu(sums, SPEC)) for each in counts), Spread(0.0, 4))
    assert found is not None and found.same_sentences.se == 0
    _, scores = PairedTest([("b", lines[1]), ("a", lines[0])], {"BLEU": metric}, [references], test_type="bs", n_samples=2000)()
    b, a = scores["BLEU"]
    assert found.delta == pytest.approx(a.score - b.score, abs=1e-9)
    test, resampled = found.other_sentences, compare(*counts, SPEC, samples=4000)
    assert (test.low, test.high) == pytest.approx((resampled.low, resampled.high), abs=0.1 * (test.high - test.low))
    assert test.p / 2 == pytest.approx(a.p_value, abs=0.04)


def pooled(arms: list[np.ndarray]) -> Spread:
    """The variance of arms with as many seeds each."""
    return Spread(float(np.mean([each.var(ddof=1) for each in arms])), len(arms) * (len(arms[0]) - 1), len(arms))


def test_the_whole_estimator_on_simulated_sentences() -> None:
    """With an effect that differs from sentence to sentence: the test over seeds alone rejects too often, the whole one does not."""
    generator, rejected = np.random.default_rng(5), np.zeros(2)
    for _ in range(300):
        shared, by_sentence = generator.normal(size=(1, 120)), generator.normal(size=(1, 120))
        a = shared + 0.5 * by_sentence + 0.03 * generator.normal(size=(3, 1)) + 0.3 * generator.normal(size=(3, 120))
        b = shared + 0.03 * generator.normal(size=(3, 1)) + 0.3 * generator.normal(size=(3, 120))
        found = difference(arm(a), arm(b), pooled([a.mean(1), b.mean(1)]))
        rejected += [found.same_sentences.p < 0.05, found.other_sentences.p < 0.05]
    assert rejected[0] / 300 > 0.15 and 0.02 < rejected[1] / 300 < 0.09


def test_detectable_effects_and_seeds() -> None:
    """The figures of docs/verdicts.md: two arms alone and ten pooled rows, standard deviation 0.3."""
    assert [round(detectable(0.3 * math.sqrt(2 / k), 2 * (k - 1)), 2) for k in (3, 5, 10)] == [0.91, 0.61, 0.4]
    assert [round(detectable(0.3 * math.sqrt(2 / k), 10 * (k - 1)), 2) for k in (3, 5, 10)] == [0.72, 0.54, 0.38]
    assert [seeds_needed(effect, Spread(0.09, 20, 2)) for effect in (1.0, 0.5, 0.3)] == [3, 7, 17]
    assert seeds_needed(0.5, Spread(0.09, 20, 2), (0.04, math.inf)) is None, "sentences alone hide it"


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5]) and holm([]) == []
