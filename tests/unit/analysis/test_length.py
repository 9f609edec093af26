"""BLEU by source length: groups, scores of groups, what is said of small ones."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.analysis.kinds.sentence_groups import grouped
from orchestrator.analysis.kinds.sentence_groups import length as analyse
from orchestrator.errors import UserError


def test_groups_hold_each_sentence_once() -> None:
    lengths = [0, 15, 16, 30, 31, 45, 46, 200, 15]
    found = dict(grouped(lengths, [15, 30, 45]))
    assert found == {"<=15": [0, 1, 8], "16-30": [2, 3], "31-45": [4, 5], ">45": [6, 7]}
    assert sorted(i for group in found.values() for i in group) == list(range(len(lengths)))


def test_a_group_is_scored_by_itself(lab: Any) -> None:
    made = analyse(lab.context("length", "base", "hier", options=["edges=6,9"]))
    bleu = {(r["row"].rpartition("/")[2], r["group"]): r["bleu"] for r in made.records}
    assert bleu["base", "<=6"] == bleu["hier", "<=6"] == bleu["hier", "7-9"] == 100.0
    assert bleu["base", "7-9"] < 100.0 and bleu["hier", ">9"] < 100.0
    delta = {(r["row"].rpartition("/")[2], r["group"]): r["delta"] for r in made.records}
    assert delta["hier", "7-9"] == pytest.approx(100.0 - bleu["base", "7-9"], abs=1e-3) and delta["base", "7-9"] == 0.0


def test_all_sentences_have_the_score_of_the_ledger(lab: Any) -> None:
    record = next(r for r in analyse(lab.context("length", "base", options=["edges=6"])).records if r["group"] == "all")
    known = lab.score("base")
    assert record["bleu"] == pytest.approx(known["bleu"], abs=1e-4) and record["sentences"] == known["sentences"]


def test_an_empty_group_has_no_score(lab: Any) -> None:
    made = analyse(lab.context("length", "base", options=["edges=6,500"]))
    empty = next(r for r in made.records if r["group"] == ">500")
    assert empty["sentences"] == 0 and empty["bleu"] is None and empty["delta"] is None
    assert any("few sentences" in line and "0 of >500" in line for line in made.notes)


@pytest.mark.parametrize("edges", ["15,15", "30,15", "0,4", "a", "3,,4", ""])
def test_edges_that_cannot_be(lab: Any, edges: str) -> None:
    with pytest.raises(UserError, match=r"edges|no value"):
        analyse(lab.context("length", "base", options=[f"edges={edges}"]))
