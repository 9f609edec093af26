"""`analyse --kind significance`: who is compared with whom, seed by seed, and what is kept for tables."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.kinds import significance
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.scoring.significance.compare import Comparer
from orchestrator.scoring.significance.sentence_statistics import of_translation, packed
from tests.unit.history import publish


def test_rows_against_the_first(own: Any) -> None:
    made = significance.analyse(own.context("significance", "base", "hier", "iter"))
    hier, perfect = made.records
    assert (hier["row"], hier["baseline"], hier["seed"]) == ("demo/small/hier", "demo/small/base", 1)
    assert hier["bleu"] > hier["baseline_bleu"] and hier["delta"] == pytest.approx(hier["bleu"] - hier["baseline_bleu"], abs=1e-5)
    assert hier["better"] > hier["worse"] and hier["better"] + hier["worse"] + hier["ties"] == 40
    assert hier["low"] <= hier["delta"] <= hier["high"] and 0 < hier["p_sign"] <= 1
    assert perfect["bleu"] == pytest.approx(100) and perfect["worse"] == 0 and perfect["mark"] == "†"
    assert any("other seeds" in note for note in made.notes) and any("one seed" in note for note in made.notes)


def test_the_bootstrap_alone_with_its_arrows(own: Any) -> None:
    """As Hao et al. 2019 mark their rows: by what the row's file says, by the row that asks, or by an option."""
    rows = {name: replace(own.rows[name], significance="bootstrap") for name in ("base", "hier", "iter")}
    asking = replace(own.rows["base"], id="demo/text/significance", significance="bootstrap")
    plain = own.context("significance", "base", "hier", "iter")
    by_file = replace(plain, subjects=[own.subject(row) for row in rows.values()])
    by_asking = replace(plain, subjects=[own.subject(name, asking) for name in rows])
    by_option = own.context("significance", "base", "hier", "iter", options=["test=bootstrap"])
    for context in (by_file, by_asking, by_option):
        made = significance.analyse(context)
        assert [(r["test"], r["mark"]) for r in made.records][1] == ("bootstrap", "⇑")
        assert made.notes[0].startswith("⇑ p < 0.01 (⇓ where worse), ↑ p < 0.05 (↓ where worse): two-sided paired bootstrap")
    assert [r["test"] for r in significance.analyse(plain).records] == ["both", "both"]
    worse = own.context("significance", "base", "iter", options=["test=bootstrap", "baseline=demo/small/iter"])
    assert [r["mark"] for r in significance.analyse(worse).records] == ["⇓"]


def test_a_chosen_baseline(own: Any) -> None:
    made = significance.analyse(own.context("significance", "base", "hier", "iter", options=["baseline=demo/small/iter"]))
    assert [(r["row"], r["baseline"]) for r in made.records] == [
        ("demo/small/base", "demo/small/iter"),
        ("demo/small/hier", "demo/small/iter"),
    ]
    assert all(r["delta"] < 0 and r["better"] == 0 for r in made.records)
    with pytest.raises(UserError, match=r"baseline=nobody.*must be among the targets"):
        significance.analyse(own.context("significance", "base", "hier", options=["baseline=nobody"]))
    with pytest.raises(UserError, match="found no row to compare"):
        significance.analyse(own.context("significance", "base"))
    with pytest.raises(UserError, match="hier: its baseline demo/small/base is not among"):
        significance.analyse(own.context("significance", "hier", "iter"))


def test_each_seed_that_both_have(own: Any) -> None:
    own.finish("base", spoil=lambda source: len(source.split()) > 5, seed=2)
    own.finish("hier", spoil=lambda source: len(source.split()) > 7, seed=2)
    own.finish("hier", seed=3)
    made = significance.analyse(own.context("significance", "base", "hier"))
    assert [record["seed"] for record in made.records] == [1, 2]
    assert not any("one seed" in note for note in made.notes)


def test_a_parent_is_the_baseline(own: Any) -> None:
    base, hier = own.rows["base"], own.rows["hier"]
    child = replace(hier, id="demo/small/child", parent=base, spec=hier.spec.model_copy(update={"init_from": base.id}))
    own.rows = own.rows | {"child": child}
    own.finish("child")
    made = significance.analyse(own.context("significance", "child"))
    assert [(r["row"], r["baseline"]) for r in made.records] == [("demo/small/child", "demo/small/base")]


def test_what_was_tested_is_kept(own: Any) -> None:
    made = significance.analyse(own.context("significance", "base", "hier"))
    kept = list((own.results / "significance").glob("*.json"))
    assert len(kept) == 1
    base, hier = own.subject("base"), own.subject("hier")
    blind = Comparer(Ledger(own.results / "none", [own.results]), lambda data: None)
    found = blind.compare(hier.spec, hier.keys, base.keys)
    assert found is not None and found.delta == pytest.approx(made.records[0]["delta"], abs=1e-6)
    assert blind.compare(base.spec, base.keys, hier.keys) is None, "the other way round was not tested"
    kept[0].write_text(json.dumps({"key": "x"}))
    assert blind.compare(hier.spec, hier.keys, base.keys) is None, "a file that is not whole counts as absent"


def test_statistics_of_a_score_do_for_its_translations(own: Any, tmp_path: Path) -> None:
    base, hier = own.subject("base"), own.subject("hier")
    here = Comparer(own.ledger, lambda data: own.prepared).compare(hier.spec, hier.keys, base.keys)
    for subject in (base, hier):
        decoded, scored = own.ledger.records(subject.train_key, "decode")[0], own.ledger.read_score(subject.train_key, subject.keys.score)
        texts = own.ledger.read_decode(subject.train_key, decoded["key"])
        found = of_translation(texts["hypotheses"], texts["tokens"], own.prepared, "test", subject.spec.score)
        own.ledger.write_score(subject.train_key, subject.keys.score, scored | {"statistics": packed(found)})
        publish(own.ledger, subject.train_key, tmp_path, texts=False)
    assert Comparer(Ledger(tmp_path), lambda data: own.prepared).compare(hier.spec, hier.keys, base.keys) == here is not None


def test_translations_must_give_their_score(own: Any) -> None:
    hier, base = own.subject("hier"), own.subject("base")
    record = own.ledger.read_score(hier.train_key, hier.keys.score)
    own.ledger.write_score(hier.train_key, hier.keys.score, record | {"bleu": 1.0})
    with pytest.raises(UserError, match="of its translations"):
        Comparer(own.ledger, lambda data: own.prepared).compare(hier.spec, hier.keys, base.keys)
