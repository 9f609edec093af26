"""Curves of gradient norms from a history."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.analysis.kinds.training import gradient_norms
from orchestrator.errors import UserError
from orchestrator.training.metrics import SAMPLES, HistoryReporter
from tests.unit.analysis.conftest import drawn


def logged(lab: Any, name: str, samples: list[Any]) -> None:
    """As a training writes them."""
    folder = lab.ledger.run_dir(lab.subject(name).train_key)
    HistoryReporter(folder / "history.jsonl").on_report({"step": 50, SAMPLES: samples}, None)


def test_a_record_for_each_layer_and_update(own: Any) -> None:
    logged(own, "base", [[10, [0.5, 0.25, 0.125, 2.0]], [20, [0.75, 0.25, 0.125, 1.0]], [30, [9.0, 9.0, 9.0, 9.0]]])
    context = own.context("gradient-norms", "base", "hier", options=["steps=20"])
    made = gradient_norms(context)
    assert [(r["layer"], r["step"], r["norm"]) for r in made.records][:3] == [(1, 10, 0.5), (1, 20, 0.75), (2, 10, 0.25)]
    assert len(made.records) == 8
    assert [line.split() for line in made.summary][3:] == [["1", "0.625"], ["2", "0.25"], ["3", "0.125"], ["4", "1.5"]]
    assert any("hier" in note and "train.log_gradient_norms" in note for note in made.notes)
    assert len(drawn(made).axes[0].lines) == 4


def test_norms_that_are_not_finite_are_counted(own: Any) -> None:
    logged(own, "base", [[10, [0.5, float("nan")]], [20, [0.0, float("inf")]]])
    context = own.context("gradient-norms", "base")
    made = gradient_norms(context)
    assert [(r["layer"], r["norm"]) for r in made.records] == [(1, 0.5), (1, 0.0)]
    assert any("2 norms are not finite" in note for note in made.notes)


def test_without_any_it_says_what_is_needed(lab: Any) -> None:
    with pytest.raises(UserError, match="demo/small/base seed 1: its history has no gradient norms; train it with --set train") as caught:
        gradient_norms(lab.context("gradient-norms", "base"))
    assert len(caught.value.lines) == 1
