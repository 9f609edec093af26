"""ASHA's rules against numbers worked out by hand: the cutoff, and what of an older decision holds."""

import json
import math

import pytest

from orchestrator.sweeps.asha import Asha, stopped_runs


def asha(tmp_path=None, pinned=(), eta=3.0, metric="valid/nll", rungs=(10, 30)):
    return Asha(list(rungs), eta, metric, set(pinned), None if tmp_path is None else tmp_path / "asha.json")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_stops_even_a_pinned_run(value):
    a = asha(pinned=["base"])
    assert a.decide("base", 10, value) is False
    assert a.decide("other", 10, 5.0) is True  # it set no cutoff


def test_decisions_survive_and_are_not_made_twice(tmp_path):
    one = asha(tmp_path)
    answers = {name: one.decide(name, 10, value) for name, value in (("a", 3.0), ("b", 4.0), ("c", 2.0))}
    two = asha(tmp_path)
    assert two.records == one.records
    # a resumed run reports its rung again, perhaps with another neighbourhood: the answer stays
    assert {name: two.decide(name, 10, 0.0) for name in answers} == answers
    assert two.stopped() == {"b": 10}
    assert two.decide("d", 30, 1.0) is True
    assert set(json.loads((tmp_path / "asha.json").read_text())["rungs"]["30"][0]) == {"run", "key", "value", "cutoff", "continue"}


def after(values: list[float], eta: float, metric: str) -> Asha:
    """A rung at which `values` arrived, in this order."""
    asha = Asha([10], eta, metric, set())
    for number, value in enumerate(values):
        asha.decide(f"r{number}", 10, value)
    return asha


CUTOFFS = [
    # (arrivals, eta, metric, cutoff): the place in the sorted arrivals, worst first, is (1 - 1/eta)(n - 1), counted from 0
    ([10, 20, 30, 40, 50], 4.0, "valid/bleu", 40.0),  # place 3
    ([50, 10, 40, 20, 30], 4.0, "valid/bleu", 40.0),  # the order of arrival plays no part
    ([10, 20, 30, 40], 4.0, "valid/bleu", 32.5),  # place 2.25: a quarter of the way from 30 to 40
    ([10, 20, 30, 40], 2.0, "valid/bleu", 25.0), ([0, 100], 4.0, "valid/bleu", 75.0),  # places 1.5 and 0.75
    ([10, 20, 30, 40, 50], 4.0, "valid/nll", 20.0), ([10, 20, 30, 40], 4.0, "valid/nll", 17.5),  # the best quarter is the lowest
    ([1.0, 4.0, 2.0], 3.0, "valid/nll", 1.0 + 2 / 3), ([7.0], 3.0, "valid/nll", 7.0),  # place 4/3 in 4, 2, 1
]  # fmt: skip


@pytest.mark.parametrize(("values", "eta", "metric", "cutoff"), CUTOFFS)
def test_the_cutoff_is_the_quantile_of_all_earlier_arrivals(values, eta, metric, cutoff):
    worse = cutoff - 0.01 if metric == "valid/bleu" else cutoff + 0.01
    better = cutoff + 0.01 if metric == "valid/bleu" else cutoff - 0.01
    assert after(values, eta, metric).decide("new", 10, better) is True
    asha = after(values, eta, metric)
    assert asha.decide("new", 10, worse) is False
    assert asha.records[10][-1].cutoff == pytest.approx(cutoff), "as it is told: in the metric's own sign"
    assert asha.records[10][0].cutoff is None and asha.records[10][0].goes_on


def test_each_rung_has_its_own_arrivals_and_its_stopped_runs():
    asha = Asha([10, 30], 2.0, "valid/nll", set(), keys={"b": "1", "twin": "1"})
    assert [asha.decide(*run) for run in (("a", 10, 1.0), ("b", 10, 9.0), ("twin", 10, 0.5), ("c", 10, 0.5))] == [True, False, False, True]
    assert [asha.decide(run, 30, value) for run, value in (("a", 20.0), ("c", 30.0))] == [True, False]
    assert asha.stopped() == {"b": 10, "twin": 10, "c": 30}, "the twin is the same training as b"


def test_a_pinned_run_goes_on_whatever_its_value_which_counts_for_the_others():
    asha = Asha([10], 2.0, "valid/nll", {"base"})
    assert asha.decide("first", 10, 9.0) and asha.decide("base", 10, 1.0)
    assert asha.decide("late", 10, 6.0) is False, "the median of 9 and 1 is 5"
    asha = Asha([10], 2.0, "valid/nll", {"base"}, keys={"base": "1", "twin": "1"})
    assert asha.decide("first", 10, 1.0) and asha.decide("twin", 10, 9.0), "one training with the pinned run"
    assert asha.decide("late", 10, 4.0) is True


@pytest.mark.parametrize("other", [((10,), 2.0, "valid/nll"), ((10,), 3.0, "valid/bleu"), ((40,), 3.0, "valid/nll")])
def test_decisions_by_another_rule_or_at_other_rungs_are_not_taken_over(tmp_path, other):
    path = tmp_path / "asha.json"
    old = Asha([10, 20], 3.0, "valid/nll", set(), path)
    for rung in (10, 20):
        assert old.decide("a", rung, 1.0) and not old.decide("b", rung, 5.0)
    assert set((new := Asha([20, 40], 3.0, "valid/nll", set(), path)).stopped()) == {"b"}
    assert new.decide("b", 10, 5.0) and new.stopped() == {"b": 20}, "a resumed run repeats its report of a rung that is gone"
    rungs, eta, metric = other
    assert Asha(list(rungs), eta, metric, set(), path).stopped() == {}


def test_decisions_on_an_edited_row_or_by_another_metric_do_not_hold(tmp_path):
    path = tmp_path / "asha.json"

    def search(metric: str, **keys: str) -> Asha:
        return Asha([10], 2.0, metric, set(), path, keys)

    assert [search("valid/nll", a="1", b="2").decide(*run) for run in (("a", 10, 5.0), ("b", 10, 6.0))] == [True, False]
    assert search("valid/nll", b="2").stopped() == {"b": 10} == stopped_runs(path)
    edited = search("valid/nll", a="1", b="3")
    assert edited.stopped() == {} == stopped_runs(path) and edited.decide("b", 10, 4.0)
    assert search("valid/ppl", a="1", c="4").decide("c", 10, 150.0), "nothing was compared by it yet"
