"""The mixed model of scores: seeds as blocks, moderated variances, false positives and power."""

import math

import numpy as np
import pytest

from orchestrator.scoring.significance.estimator import answer
from orchestrator.scoring.significance.mixed import WEIGHT, MixedModel, Spread, _fit, own

UNIT = (-1.0, 0.0, 1.0)
"""Three seeds with variance 1."""


def seeds(scores: object) -> dict[int, float]:
    return {seed: float(score) for seed, score in enumerate(np.asarray(scores), start=1)}


def test_seed_effects_are_those_of_a_two_way_analysis_of_variance() -> None:
    """For balanced rows with equal variances REML is (MS_seeds - MS_error) / R, or 0."""
    generator = np.random.default_rng(1)
    scores = generator.normal(size=(6, 4)) + 2 * generator.normal(size=4) + np.arange(6)[:, None]
    residual = scores - scores.mean(0) - scores.mean(1)[:, None] + scores.mean()
    error, between = (residual**2).sum() / 15, 6 * scores.mean(0).var(ddof=1)
    found, tau2 = _fit({row: seeds(each) for row, each in enumerate(scores)}, {})
    assert tau2 == pytest.approx((between - error) / 6, rel=1e-4)
    assert sum(each.df for each in found.values()) == pytest.approx(18 - 3 * (1 - error / between), rel=1e-4)
    opposite = {"a": seeds(UNIT), "b": seeds(UNIT[::-1])}
    assert _fit(opposite, {}) == ({"a": Spread(1.0, 2.0), "b": Spread(1.0, 2.0)}, 0.0), "the seeds agree less than chance has it"


def test_the_effect_of_shared_seeds_leaves_a_difference_and_that_of_others_stays() -> None:
    generator = np.random.default_rng(2)
    effect = dict(enumerate(3 * generator.normal(size=6)))
    rows = {row: {seed: effect[seed] + 0.3 * generator.normal() for seed in range(4)} for row in range(8)}
    model = MixedModel(rows | {"others": {seed: effect[seed] + 0.3 * generator.normal() for seed in (2, 3, 4, 5)}})
    alike, unlike = model.between(0, 1), model.between(0, "others")
    assert alike is not None and unlike is not None and alike.sd < 0.6 < 1.0 < math.sqrt(model.tau2)
    assert unlike.variance * 0.5 == pytest.approx(sum(model.moderated[name].variance / 4 for name in (0, "others")) + model.tau2 * 4 / 16)


def test_variances_are_moderated_and_an_outlying_one_is_its_own() -> None:
    table = {name: seeds(sign * np.array(UNIT)) for name, sign in zip("abcdefgh", [1, -1] * 4, strict=True)}
    model = MixedModel(table | {"wild": seeds((-30.0, 5.0, 33.0))})
    wild, plain, of_a = model.of("wild"), own((-30.0, 5.0, 33.0)), model.of("a")
    assert wild.variance == pytest.approx(plain.variance, rel=0.01) and wild.df < 2.1
    assert of_a.variance == pytest.approx(1.0, rel=0.2) and of_a.df == pytest.approx(2 + WEIGHT, abs=0.5)


def test_one_seed_equal_scores_and_a_floor() -> None:
    assert MixedModel({"a": {1: 1.0}, "b": {1: 2.0}}).between("a", "b") is None and own([1.0]) is None
    still = MixedModel({"a": seeds((1.0, 1.0)), "b": seeds((2.0, 2.0))}).between("a", "b")
    assert still is not None and still.variance == 0.0
    alone = MixedModel({"a": seeds(UNIT), "b": {1: 5.0}}).between("a", "b")
    assert alone is not None and alone.variance == pytest.approx(1.0), "the variance of the other row"
    wide = MixedModel({"a": seeds(UNIT), "b": seeds(UNIT[::-1])}, floor=Spread(4.0, 19)).between("a", "b")
    assert wide is not None and 1.0 < wide.variance < 4.0, "a floor counts as one row more"


def test_an_unknown_device_is_no_second_kind() -> None:
    rows = {"a": seeds((1.0, 2.0, 6.0)), "b": seeds((2.0, 4.0, 5.0))}
    known = {name: dict.fromkeys(own, "cpu") for name, own in rows.items()}
    one_lost = known | {"a": known["a"] | {3: ""}}
    assert MixedModel(rows, blocks=one_lost).blocks.between("a", "b") == (0.0, 0.0)
    assert MixedModel(rows, blocks=one_lost).between("a", "b") == MixedModel(rows, blocks=known).between("a", "b")
    both = known | {"a": known["a"] | {3: "cuda"}}
    assert MixedModel(rows, blocks=both).blocks.between("a", "b")[0] != 0.0
    assert MixedModel(rows, blocks=both | {"b": dict.fromkeys((1, 2, 3), "")}).blocks.between("a", "b") == (0.0, 0.0)
    third = {kind: MixedModel(rows | {"c": rows["b"]}, blocks=both | {"c": dict.fromkeys((1, 2, 3), kind)}).blocks for kind in ("cpu", "x")}
    assert third["x"].between("a", "b") == pytest.approx(third["cpu"].between("a", "b"))
    assert third["x"].between("a", "c") == (0.0, 0.0) != third["cpu"].between("a", "c"), "no row connects x to another kind"


@pytest.mark.parametrize(
    ("baseline", "correlation", "size", "power"),
    [(1.0, 0.0, 0.065, 0.68), (1.0, 0.4, 0.065, 0.68), (2.0, 0.0, 0.08, 0.3), (5.0, 0.0, 0.1, 0.05)],
    ids=["equal", "shared seeds", "baseline twice", "baseline five times"],
)
@pytest.mark.slow
def test_false_positives_and_power(baseline: float, correlation: float, size: float, power: float) -> None:
    """Simulated tables of a baseline and eleven rows with five seeds; power for a difference of 3 standard errors."""
    generator, tables = np.random.default_rng(3), 150
    rejected = np.zeros(2)
    for _ in range(tables):
        noise = math.sqrt(correlation) * generator.normal(size=5) + math.sqrt(1 - correlation) * generator.normal(size=(12, 5))
        scores = np.array([baseline, *[1.0] * 11])[:, None] * noise
        model = MixedModel(dict(enumerate(map(seeds, scores))))
        for row in range(1, 12):
            spread = model.between(row, 0)
            delta = float(scores[row].mean() - scores[0].mean())
            planted = (0.0, 3 * math.sqrt(2 / 5 * (1 - correlation)))
            rejected += [answer(delta + more, spread.variance * 2 / 5, spread.df).p < 0.05 for more in planted]
    false, true = rejected / (11 * tables)
    assert false < size and true > power
