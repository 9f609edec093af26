"""`analyse --kind significance`: who is compared with whom, seed by seed."""

from dataclasses import replace

import pytest

from orchestrator.analysis.kinds import significance
from tests.unit.conftest import refused


def test_rows_against_the_first(own) -> None:
    made = significance.analyse(own.context("significance", "base", "hier", "iter"))
    hier, perfect = made.records
    assert (hier["row"], hier["baseline"], hier["seed"]) == ("demo/small/hier", "demo/small/base", 1)
    assert hier["bleu"] > hier["baseline_bleu"] and hier["delta"] == pytest.approx(hier["bleu"] - hier["baseline_bleu"], abs=1e-5)
    assert hier["better"] > hier["worse"] and hier["better"] + hier["worse"] + hier["ties"] == 40
    assert hier["low"] <= hier["delta"] <= hier["high"] and 0 < hier["p_sign"] <= 1
    assert perfect["bleu"] == pytest.approx(100) and perfect["worse"] == 0 and perfect["mark"] == "†"
    assert any("other seeds" in note for note in made.notes) and any("one seed" in note for note in made.notes)


def test_the_bootstrap_alone_with_its_arrows(own) -> None:
    """As Hao et al. 2019 mark their rows: by what the row's file says, or by the row that asks."""
    rows = {name: replace(own.rows[name], significance="bootstrap") for name in ("base", "hier", "iter")}
    asking = replace(own.rows["base"], id="demo/text/significance", significance="bootstrap")
    plain = own.context("significance", "base", "hier", "iter")
    by_file = replace(plain, subjects=[own.subject(row) for row in rows.values()])
    by_asking = replace(plain, subjects=[own.subject(name, asking) for name in rows])
    for context in (by_file, by_asking):
        made = significance.analyse(context)
        assert [(r["test"], r["mark"]) for r in made.records][1] == ("bootstrap", "⇑")
        assert made.notes[0].startswith("⇑ p < 0.01 (⇓ where worse), ↑ p < 0.05 (↓ where worse): two-sided paired bootstrap")
    assert [r["test"] for r in significance.analyse(plain).records] == ["both", "both"]


def test_rows_without_a_baseline(own) -> None:
    for rows, said in ((["base"], "found no row to compare"), (["hier", "iter"], "hier: its baseline demo/small/base is not among")):
        assert said in refused(significance.analyse, own.context("significance", *rows))[0]


def test_each_seed_that_both_have(own) -> None:
    own.finish("base", spoil=lambda source: len(source.split()) > 5, seed=2)
    own.finish("hier", spoil=lambda source: len(source.split()) > 7, seed=2)
    own.finish("hier", seed=3)
    made = significance.analyse(own.context("significance", "base", "hier"))
    assert [record["seed"] for record in made.records] == [1, 2]
    assert not any("one seed" in note for note in made.notes)


@pytest.mark.parametrize(("named", "base"), [("", "base"), ("compare_with: hier, ", "hier")])
def test_the_baseline_is_the_row_that_the_table_compares_with(lab, tmp_path, named: str, base: str) -> None:
    made = type(lab)(tmp_path, lab.file.read_text().replace("later: {", f"later: {{init_from: base, {named}"))
    for name in ("base", "hier", "later"):
        made.finish(name, spoil=lambda source, name=name: len(source.split()) > 6 + len(name))
    assert significance.analyse(made.context("significance", "hier", "later")).records[0]["baseline"] == f"demo/small/{base}"
