"""Decisions replayed over full runs are those that ASHA makes, and cost what they save."""

from __future__ import annotations

import pytest

from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.asha_replay import Curve, replay, rungs_of


def grid(*finals: float, steps=(10, 20, 40)) -> dict[str, Curve]:
    """Runs that differ by a constant from the start on."""
    return {f"r{i}": Curve({step: final + 40 / step for step in steps}) for i, final in enumerate(finals)}


def test_one_after_the_other_the_order_decides():
    curves = grid(3.0, 2.0, 1.0)
    worst_first = replay(curves, Asha([10, 20], 2.0, "min", set()), ["r0", "r1", "r2"], workers=1)
    best_first = replay(curves, Asha([10, 20], 2.0, "min", set()), ["r2", "r1", "r0"], workers=1)
    assert worst_first.stopped == {} and worst_first.share == 1.0  # each is better than all before it
    assert best_first.stopped == {"r1": 10, "r0": 10}
    assert best_first.spent == {"r2": 40, "r1": 10, "r0": 10} and best_first.share == pytest.approx(60 / 120)


def test_side_by_side_runs_meet_at_their_rungs_in_time_order():
    curves = {"slow": Curve({10: 1.0, 20: 1.0}, cost=3.0), "fast": Curve({10: 2.0, 20: 2.0}, cost=1.0), "late": Curve({10: 1.5, 20: 1.5})}
    found = replay(curves, Asha([10], 2.0, "min", set()), ["slow", "fast", "late"], workers=2)
    # fast is at its rung first and goes on; late starts at 20 and is there at 30, as slow is, which started first
    assert found.stopped == {} or found.stopped == {"late": 10}
    asha = Asha([10], 2.0, "min", set())
    replay(curves, asha, ["slow", "fast", "late"], workers=2)
    assert [r["run"] for r in asha.records[10]] == ["fast", "slow", "late"]


def test_pinned_runs_go_on_and_crossing_curves_lose_the_best():
    curves = {"early": Curve({10: 1.0, 40: 1.0}), "late": Curve({10: 9.0, 40: 0.5})}
    assert replay(curves, Asha([10], 2.0, "min", set()), ["early", "late"], 1).stopped == {"late": 10}
    assert replay(curves, Asha([10], 2.0, "min", {"late"}), ["early", "late"], 1).stopped == {}


def test_rungs_are_validations_of_all_runs():
    steps = tuple(range(100, 900, 100))
    assert rungs_of(grid(1.0, 2.0, steps=steps), 2) == [100, 200, 400]
    assert rungs_of(grid(1.0, 2.0, steps=steps), 3) == [100, 300]
    assert rungs_of(grid(1.0, steps=steps) | {"x": Curve({300: 1.0, 900: 1.0})}, 2) == [300]
    assert rungs_of(grid(1.0, steps=(40,)), 2) == []
