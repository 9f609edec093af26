from __future__ import annotations

import math

import pytest

from orchestrator.sweeps.asha import Asha


def asha(tmp_path=None, pinned=(), eta=3.0, mode="min", rungs=(10, 30)):
    return Asha(list(rungs), eta, mode, set(pinned), None if tmp_path is None else tmp_path / "asha.json")


def test_the_first_always_goes_on_and_order_decides():
    ascending, descending = asha(), asha()
    assert [ascending.decide(f"r{v}", 10, v) for v in (9, 8, 7, 6, 5)] == [True] * 5  # lower is better, each better than all before
    assert [descending.decide(f"r{v}", 10, v) for v in (5, 6, 7, 8, 9)] == [True, False, False, False, False]


def test_ties_go_on():
    a = asha()
    assert all(a.decide(name, 10, 1.0) for name in "abcd")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_stops_even_a_pinned_run(value):
    a = asha(pinned=["base"])
    assert a.decide("base", 10, value) is False
    assert a.decide("other", 10, 5.0) is True  # it set no cutoff


def test_a_pinned_run_is_never_stopped():
    a = asha(pinned=["base"])
    a.decide("good", 10, 1.0)
    assert a.decide("base", 10, 99.0) is True
    assert a.decide("bad", 10, 99.5) is False


def test_maximise():
    a = asha(mode="max")
    assert a.decide("one", 10, 0.5) and a.decide("two", 10, 0.9) and not a.decide("three", 10, 0.1)


def test_decisions_survive_and_are_not_made_twice(tmp_path):
    one = asha(tmp_path)
    answers = {name: one.decide(name, 10, value) for name, value in (("a", 3.0), ("b", 4.0), ("c", 2.0))}
    two = asha(tmp_path)
    assert two.records == one.records
    # a resumed run reports its rung again, perhaps with another neighbourhood: the answer stays
    assert {name: two.decide(name, 10, 0.0) for name in answers} == answers
    assert two.stopped() == {"b": 10}
    assert two.decide("d", 30, 1.0) is True
    assert set(asha(tmp_path).records[30][0]) == {"run", "value", "cutoff", "continue"}
