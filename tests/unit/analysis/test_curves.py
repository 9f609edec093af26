"""BLEU by hops and accuracy by update."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.analysis import accuracy, hops
from orchestrator.errors import UserError
from orchestrator.spec import ModelSpec, ScoreSpec

SA = {"kind": "mlrf-self-attention"}


def test_hops_of_a_model_with_its_default() -> None:
    model = ModelSpec.model_validate({"encoder": {"aggregation": SA}, "decoder": {"aggregation": SA | {"n_hop": 7}}})
    assert hops.hops_of(model) == {"encoder": 4, "decoder": 7}
    assert hops.hops_of(ModelSpec()) == {}


def test_bleu_by_hops(lab: Any) -> None:
    made = hops.analyse(lab.context("hops", "hop3", "hop1", "base"))
    assert [(r["row"].rpartition("/")[2], r["hops"], r["sides"]) for r in made.records] == [
        ("base", None, "none"),
        ("hop1", 1, "decoder"),
        ("hop3", 3, "decoder"),
    ]
    bleu = {r["hops"]: r["bleu"] for r in made.records}
    assert bleu[1] == 100.0 and bleu[3] < 100.0 and made.notes == []


def test_bleu_by_hops_says_what_is_missing(lab: Any) -> None:
    notes = hops.analyse(lab.context("hops", "hop1")).notes
    assert len(notes) == 2 and "nothing to compare" in notes[0] and "no baseline" in notes[1]
    with pytest.raises(UserError, match="no row with aggregation mlrf-self-attention"):
        hops.analyse(lab.context("hops", "base", "hier"))


def test_other_figures_and_their_means(lab: Any, about: Any) -> None:
    """`also` is another scoring of the same training; a mean needs all of its parts."""
    row = about(
        lab.rows["hop1"], also={"cased": ScoreSpec(metric="multi-bleu")}, means={"both": ["bleu", "cased"], "none": ["bleu", "gone"]}
    )
    context = lab.context("hops", "base")
    context.subjects[0] = lab.subject(row)
    made = hops.analyse(context)
    assert {r["figure"]: r["bleu"] for r in made.records} == {"test": 100.0, "cased": 100.0, "both": 100.0}
    assert "demo/small/hop1 seed 1: no figure of none; run the row again" in made.notes


def test_accuracy_by_update_in_percent(lab: Any) -> None:
    made = accuracy.analyse(lab.context("accuracy", "base"))
    points = [(r["data"], r["step"], r["accuracy"]) for r in made.records]
    assert points == [("training", 2, 12.5), ("training", 4, 25.0), ("validation", 2, 25.0), ("validation", 4, 50.0)]


def test_a_missing_curve_is_named(lab: Any) -> None:
    made = accuracy.analyse(lab.context("accuracy", "base", "iter"))
    assert {r["data"] for r in made.records if r["row"] == "demo/small/iter"} == {"validation"}
    assert "demo/small/iter seed 1: its history has no train/accuracy; that curve is missing" in made.notes
