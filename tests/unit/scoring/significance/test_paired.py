"""BLEU statistics by sentence, the sign test and the paired bootstrap, each against an independent computation."""

import random
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.paired_tests import LEVELS, SEED, Comparison, compare
from orchestrator.scoring.significance.sentence_statistics import Counts
from orchestrator.scoring.significance.sentence_statistics import bleu_statistics as statistics
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text

WORDS = ["the", "a", "old", "new", "red", "house", "tree", "well-known", "Dog", "CAT", "runs", "sees", ",", ".", "in", "Ä", "3.5", "it's"]
METRICS = ["sacrebleu", "multi-bleu", "mteval"]


def corpus(sentences: int, seed: int = 1) -> tuple[list[str], list[str], list[str]]:
    """(reference, a good system, a worse one)."""
    rng = random.Random(seed)
    reference = [" ".join(rng.choices(WORDS, k=rng.randint(1, 14))) for _ in range(sentences)]

    def noisy(line: str, share: float) -> str:
        return " ".join(rng.choice(WORDS) if rng.random() < share else word for word in line.split())

    return reference, [noisy(line, 0.15) for line in reference], [noisy(line, 0.3) for line in reference]


def counts(system: list[str], streams: list[list[str]], spec: ScoreSpec) -> Counts:
    return statistics(system, system, Text(*streams), "test", spec)


@pytest.mark.parametrize("metric", METRICS)
def test_sign_test_is_the_exchange_of_one_sentence(metric: str) -> None:
    reference, good, bad = corpus(40)
    good[3] = bad[3]
    spec = ScoreSpec.model_validate({"metric": metric})

    def bleu(system: list[str]) -> float:
        return float(score(system, system, Text(reference), "test", spec)["bleu"])

    before = bleu(bad)
    changes = [bleu([*bad[:i], good[i], *bad[i + 1 :]]) - before for i in range(len(bad))]
    better, worse = sum(c > 1e-12 for c in changes), sum(c < -1e-12 for c in changes)
    found = compare(counts(good, [reference], spec), counts(bad, [reference], spec), spec)
    assert (found.better, found.worse, found.ties) == (better, worse, len(bad) - better - worse)
    assert found.ties >= 1 and better > worse > 0


@pytest.mark.parametrize("share", [0.12, 0.3])
def test_bootstrap_is_sacrebleus(share: float) -> None:
    reference, good, _ = corpus(50)
    rng = random.Random(9)
    other = [" ".join(rng.choice(WORDS) if rng.random() < share else word for word in line.split()) for line in reference]
    theirs = PairedTest([("base", other), ("good", good)], {"BLEU": BLEU(force=True)}, [reference], "bs", n_samples=300)()
    spec = ScoreSpec()
    found = compare(counts(good, [reference], spec), counts(other, [reference], spec), spec, samples=300)
    assert found.p_bootstrap == pytest.approx(theirs[1]["BLEU"][1].p_value, abs=1.01 / 301)
    assert found.low < found.high and 0 <= found.wins <= 1
    assert (found.p_bootstrap > 0.1) == (share < 0.2), "one of the two is not significant"


def test_equal_translations_are_never_significant() -> None:
    reference, good, _ = corpus(30)
    spec = ScoreSpec()
    same = counts(good, [reference], spec)
    found = compare(same, same, spec, samples=50)
    assert (found.delta, found.ties, found.p()) == (0.0, 30, 1.0) and found.p_bootstrap == 1.0
    assert all(found.mark(test) == "" for test in LEVELS)


def test_both_tests_must_agree() -> None:
    reference, good, bad = corpus(200)
    spec = ScoreSpec()
    a, b = counts(good, [reference], spec), counts(bad, [reference], spec)
    better, worse = compare(a, b, spec, samples=200), compare(b, a, spec, samples=200)
    assert better.delta > 5 and better.mark("both") == worse.mark("both") == "†"
    assert better.p() == max(better.p("sign"), better.p("bootstrap"))
    torn = replace(better, delta=-better.delta)
    assert torn.p() == torn.p("sign") == 1.0, "a sign test that points the other way supports nothing"
    assert torn.p("bootstrap") == better.p_bootstrap, "the bootstrap does not know of it"


def found(delta: float, sign: float, bootstrap_p: float) -> Comparison:
    """A comparison with these p-values, its sign test on the side of the difference."""
    better, worse = (9, 1) if delta > 0 else (1, 9)
    return Comparison(30.0 + delta, 30.0, delta, delta - 1, delta + 1, 0.9, bootstrap_p, sign, better, worse, 0)


@pytest.mark.parametrize(
    ("test", "sign", "bootstrap_p", "better", "worse"),
    [
        ("both", 0.0099, 0.001, "†", "†"), ("both", 0.01, 0.001, "*", "*"), ("both", 0.001, 0.05, "", ""), ("sign", 0.001, 0.9, "†", "†"),
        ("sign", 0.9, 0.001, "", ""), ("bootstrap", 0.9, 0.0099, "⇑", "⇓"), ("bootstrap", 0.9, 0.01, "↑", "↓"),
        ("bootstrap", 0.001, 0.05, "", ""),
    ],
)  # fmt: skip
def test_marks_by_test_level_and_side(test: str, sign: float, bootstrap_p: float, better: str, worse: str) -> None:
    assert found(1.0, sign, bootstrap_p).mark(test) == better and found(-1.0, sign, bootstrap_p).mark(test) == worse


def test_other_sentences_do_not_compare() -> None:
    with pytest.raises(ValueError, match="same sentences"):
        compare(np.ones((3, 10), dtype=np.int64), np.ones((2, 10), dtype=np.int64), ScoreSpec())
    with pytest.raises(ValueError, match="at least one"):
        compare(np.ones((0, 10), dtype=np.int64), np.ones((0, 10), dtype=np.int64), ScoreSpec())


def test_the_bootstraps_interval_holds_95_of_100_and_a_tie_is_no_win():
    """Two systems that differ in two sentences of twelve: many a resample has neither."""
    reference = [f"the {word} house stands in the {word} wood near a lake" for word in "abcdefghijkl"]
    baseline = [line.replace("near a", "by the") for line in reference]
    system = [reference[0], baseline[1].replace("house", "hut"), *baseline[2:]]
    spec = ScoreSpec()
    one, two = (statistics(lines, lines, Text(reference), "test", spec) for lines in (system, baseline))
    found = compare(one, two, spec, samples=200)
    draws = np.random.default_rng(SEED).choice(12, size=(200, 12), replace=True)
    deltas = sorted(float(corpus_bleu(one[draw].sum(axis=0), spec) - corpus_bleu(two[draw].sum(axis=0), spec)) for draw in draws)
    ties = sum(abs(d) < 1e-9 for d in deltas)
    assert ties > 5
    assert found.wins == pytest.approx(sum(d > 1e-9 for d in deltas) / 200)

    def quantile(share):
        place = share * 199
        below = int(place)
        return deltas[below] + (place - below) * (deltas[below + 1] - deltas[below])

    assert (found.low, found.high) == pytest.approx((quantile(0.025), quantile(0.975)), abs=1e-9)
