"""All 307 rows of Dou 2018, Wang 2018, Hao 2019, Wei 2020 and Shen 2018: equal rows are one training, and different ones stay different."""

import functools
from typing import Any

import pytest

from orchestrator.ledger.keys import without_grown
from orchestrator.report.claims import reported_claims
from orchestrator.specs.row import Row, starts
from orchestrator.specs.rows import resolve, runs, sweep_of
from orchestrator.specs.schema import DataSpec
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data, also_keys, keys_for
from orchestrator.sweeps.task import group_jobs, make_tasks, topological_levels
from tests.specs import shipped
from tests.specs.papers import KINDS, OWN, PAPERS, QUOTED, RUN, SAME


class Present(Data):
    """Every corpus is there: a manifest that holds its name where hashes of its text would stand."""

    def manifest(self, data: DataSpec) -> dict[str, Any] | None:
        options = without_grown("data", data.model_dump(mode="json", exclude={"corpus", "vocab"}))
        splits = ("test", "mt04", "mt05", "mt08", *(f"tst201{year}" for year in range(1, 5)))
        text = {"text": {name: [data.corpus, name] for name in ("train", "valid")}, "tests": {name: [data.corpus, name] for name in splits}}
        return {"format": 1, "languages": ["x", "y"], "preparation": options} | text


@functools.cache
def rows(profile: str | None = None) -> dict[str, Row]:
    return {row.id: row for folder in PAPERS for row in resolve(folder, profile=profile)}


@functools.cache
def trainings(profile: str | None = None) -> dict[str, str]:
    """Address -> train key, as if every corpus were there."""
    data = Present(None)
    return {name: str(keys_for(row, data).train) for name, row in rows(profile).items() if row.spec is not None}


def test_all_307_rows_are_there_and_of_the_right_kind() -> None:
    assert (len(KINDS), len(RUN), len(QUOTED)) == (307, 229, 40)
    own = {name for name, row in rows().items() if shipped.NOT_THE_PAPERS in row.label}
    assert {name: row.kind for name, row in rows().items() if name not in own} == KINDS
    assert set(OWN) <= own and {rows()[name].kind for name in OWN} == {"run"}


def test_229_rows_are_193_trainings() -> None:
    keys = trainings()
    assert {name: keys[other] for name, other in SAME.items()} == {name: keys[name] for name in SAME}
    assert len({keys[name] for name in RUN}) == 193 == len(RUN) - len(SAME)
    shared = {name: other for name, other in OWN.items() if other is not None}
    assert {keys[name] for name in shared} == {keys[other] for other in shared.values()}
    assert len({keys[name] for name in (*RUN, *OWN)}) == 193 + len(OWN) - len(shared)


def differences(row: Row, scaled: Row) -> str:
    """What a profile leaves different: it has one batch for all rows, and a corpus of its own for some."""
    own = row.spec.model_dump_json(include={"model", "optim", "train"}) + str(row.spec.data.lowercase) + scaled.spec.data.corpus
    return own + (differences(row.parent, scaled.parent) if row.parent is not None and scaled.parent is not None else "")


@pytest.mark.parametrize("profile", ["smoke", "mini-short", "mini", "gpu"])
def test_a_profile_keeps_different_rows_different(profile: str) -> None:
    """The baselines of Dou and Hao are one training there, and so are words, BPE and morphemes of Shen's corpora. Where a profile has one
    corpus, language pairs are one too (Dou's table 2, Hao's table 3, Wei's table 2)."""
    scaled = trainings(profile)
    as_one = {name: differences(rows()[name], rows(profile)[name]) for name in scaled}
    groups = [{as_one[name] for name in scaled if scaled[name] == key} for key in set(scaled.values())]
    assert [group for group in groups if len(group) > 1] == []
    assert len(groups) == len(set(as_one.values()))
    if profile.startswith("mini"):
        assert scaled["dou2018/table2/row8/en-de"] != scaled["dou2018/table2/row8/zh-en"]
        return
    pairs, baselines = 4 + 5 + 12, 3  # row6 to row9; row5 to row8 and row8-all; base, big, and base trained on
    segmented = 18 + 3 + 1  # Tr-En-morph is Tr-En: table 1, row2 to row4 of table 2; table4/row5 is table4/row7
    assert len(groups) == len(set(trainings().values())) - pairs - baselines - segmented


@pytest.mark.parametrize("profile", [None, "smoke", "mini-short", "mini"])
def test_validation_and_test_tables_differ_by_their_scores_alone(profile: str | None) -> None:
    data = Present(None)
    for name in ("dou2018/table3/row1", "dou2018/table4/row4"):
        valid, test = keys_for(rows(profile)[name], data), keys_for(rows(profile)[SAME[name]], data)
        assert valid.train == test.train and valid.decode != test.decode and valid.score != test.score
    fusion = rows(profile)["mlrf2018/table2/row9"]
    assert fusion.spec is not None and fusion.spec.score.test != "valid" and fusion.also["valid"].test == "valid"


def test_one_training_gives_all_figures_of_the_nist_table() -> None:
    row, data = rows()["mlrf2018/table3/row11"], Present(None)
    assert row.spec is not None and row.spec.score.test == "mt04"
    assert {name: score.test for name, score in row.also.items()} == {"valid": "valid", "mt05": "mt05", "mt08": "mt08"}
    assert row.means == {"average": ["bleu", "mt05", "mt08"]}
    keys, also = keys_for(row, data), also_keys(row, data)
    assert len({found.decode for found in (keys, *also.values())}) == 4
    for name in ("row9", "row10"):
        said = rows()[f"mlrf2018/table3/{name}"].expect
        mean = sum(float(said[test] or 0) for test in ("bleu", "mt05", "mt08")) / 3
        assert round(mean, 2) == said["average"] != said["average_printed"], "both are kept: the paper's columns disagree"


@pytest.mark.parametrize("folder", PAPERS)
def test_a_sweep_of_a_paper_makes_a_task_for_every_row_and_trains_none_twice(folder: str) -> None:
    found = {row.id: row for row in resolve(folder, profile="smoke")}
    todo = [row for row, _ in runs(list(found.values()), [1])]
    tasks = make_tasks(todo, sweep_of(folder, "smoke").seeds, ExecutionOptions(name="demo"))
    assert {task.id for task in tasks} == {name for name, row in found.items() if row.kind == "run"}
    assert not {task.id for task in tasks} & set(QUOTED)
    jobs = [job for level in topological_levels(tasks) for job in group_jobs(level)]
    keys = [job[0].train_key for job in jobs]
    assert len(keys) == len(set(keys)) < len(tasks) == sum(len(job) for job in jobs)


@pytest.mark.parametrize(
    ("row", "against", "effect"),
    [
        ("mlrf2018/table3/row12", "row5", 0.66), ("mlrf2018/table4/row3", "row1", -0.24), ("mlrf2018/table4/row5", "row4", -0.23),
        ("mlrf2018/table4/row8", "row7", -0.04), ("mlrf2018/table4/row4", "baseline", 0.62), ("wei2020/table4/row13", "row12", 0.31),
        ("wei2020/table2/row3/de-en", "row1/de-en", 2.13), ("hao2019/fig5/T8", "baseline", 0.90), ("wei2020/fig2/msc72", "plain72", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("profile", [None, "smoke"])
def test_differences_that_the_paper_reports_are_claims_on_the_rows_that_it_compares(profile, row: str, against: str, effect) -> None:
    table = [each for name, each in rows(profile).items() if name.startswith("/".join(row.split("/")[:2]) + "/")]
    claims = {claim.row: claim for claim in reported_claims(table, starts(table))}
    assert starts(table)[row].split("/", 2)[2] == against and (claims[row].effect if row in claims else None) == pytest.approx(effect)


@pytest.mark.parametrize("row", ["mlrf2018/table2/row9", "dou2018/table1/row1", "hao2019/table1/row1"])
def test_merges_are_joint_with_a_vocabulary_per_language(row: str) -> None:
    spec = rows()[row].spec
    assert spec is not None and (spec.data.subword.merges, spec.data.subword.joint) == ("joint", False)


@pytest.mark.parametrize(
    ("row", "stated", "assumed"),
    [
        ("wei2020/table4/row8", "data.tokenizer", "data.max_length"), ("mlrf2018/table3/row4", "optim.betas", "optim.restart.schedule"),
        ("hao2019/table3/row8/en-de", "model.bridge.where", "data.subword.merges"), ("wei2020/table5/row6", "model.d_ff", "model.dropout"),
        ("shen2018/table1/row6/tr-en-e64", "data.subword.joint", "model.bridge"),
        ("shen2018/table1/row6/de-en-e64", "batch.size", "data.subword.joint"),
    ],
)  # fmt: skip
def test_what_a_paper_states_is_not_assumed(row: str, stated: str, assumed: str) -> None:
    assert stated not in rows()[row].assumed and assumed in rows()[row].assumed


BASELINES = {
    *(f"dou2018/table{i}/row1" for i in (1, 3, 4)),
    *(f"dou2018/table2/row{i}/{pair}" for i in (6, 8) for pair in ("en-de", "zh-en")),
    *(f"hao2019/table{i}/row1" for i in (1, 2, 4)),
    *(f"hao2019/table3/row{i}/{pair}" for i in (5, 7) for pair in ("en-de", "zh-en")),
    "hao2019/fig5/baseline",
}


def test_variants_start_from_the_baseline_of_their_size_and_pair() -> None:
    for name, row in rows().items():
        if name.startswith(("dou2018", "hao2019")) and row.spec is not None:
            assert (row.parent is None) == (name in BASELINES), name
            if row.parent is not None and row.parent.spec is not None:
                assert row.parent.spec.data == row.spec.data and row.parent.spec.model.d_model == row.spec.model.d_model
                assert row.parent.spec.train == row.spec.train and row.parent.spec.optim == row.spec.optim
        elif row.spec is not None:
            assert row.parent is None
