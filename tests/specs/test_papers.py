"""Dou et al. 2018 and Wang et al. 2018: all 102 rows are there, equal rows are one training, and different ones stay different."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from orchestrator.make_tasks import Options, jobs_of, levels, make_tasks
from orchestrator.plan import Data, also_keys, keys_for
from orchestrator.rows import Row, resolve, runs, sweep_of
from orchestrator.spec import DataSpec
from tests.specs.papers import KINDS, OWN, PAPERS, QUOTED, RUN, SAME


class Present(Data):
    """Every corpus is there: a manifest that holds its name where hashes of its text would stand."""

    def manifest(self, data: DataSpec) -> dict[str, Any] | None:
        options = data.model_dump(mode="json", exclude={"corpus", "vocab"})
        splits = ("test", "mt04", "mt05", "mt08")
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


def test_all_102_rows_are_there_and_of_the_right_kind() -> None:
    assert (len(KINDS), len(RUN), len(QUOTED)) == (102, 73, 15)
    assert {name: row.kind for name, row in rows().items()} == KINDS | dict.fromkeys(OWN, "run")


def test_73_rows_are_62_trainings() -> None:
    keys = trainings()
    assert {name: keys[other] for name, other in SAME.items()} == {name: keys[name] for name in SAME}
    assert len({keys[name] for name in RUN}) == 62 == len(RUN) - len(SAME)
    shared = {name: other for name, other in OWN.items() if other is not None}
    assert {keys[name] for name in shared} == {keys[other] for other in shared.values()}
    assert len(set(keys.values())) == 62 + len(OWN) - len(shared)


@pytest.mark.parametrize("profile", ["smoke", "cpu", "gpu"])
def test_a_profile_keeps_different_rows_different(profile: str) -> None:
    """Rows that differ in more than their corpus, for a profile has one: there the two language pairs of Dou's table 2 are one training."""
    published, scaled = trainings(), trainings(profile)
    as_one = {name: published[name.replace("/zh-en", "/en-de")] for name in published}
    groups = [{as_one[name] for name in scaled if scaled[name] == key} for key in set(scaled.values())]
    assert [group for group in groups if len(group) > 1] == []
    assert len(groups) == len(set(as_one.values())) == len(set(published.values())) - 4


@pytest.mark.parametrize("profile", [None, "smoke", "cpu"])
def test_validation_and_test_tables_differ_by_their_scores_alone(profile: str | None) -> None:
    data = Present(None)
    for name in ("dou2018/table3/row1", "dou2018/table4/row4"):
        valid, test = keys_for(rows(profile)[name], data), keys_for(rows(profile)[SAME[name]], data)
        assert valid.train == test.train and valid.decode != test.decode and valid.score != test.score
    fusion = rows(profile)["mlrf2018/table2/row9"]
    assert fusion.spec is not None and fusion.spec.score.test != "valid" and fusion.also["valid"].test == "valid"


def test_one_training_gives_all_figures_of_the_nist_table() -> None:
    row, data = rows()["mlrf2018/table3/row11"], Present(None)
    assert {name: score.test for name, score in row.also.items()} == {"valid": "valid", "mt04": "mt04", "mt05": "mt05", "mt08": "mt08"}
    assert row.means == {"average": ["mt04", "mt05", "mt08"]}
    keys, also = keys_for(row, data), also_keys(row, data)
    assert also["mt04"] == keys and len({found.decode for found in also.values()}) == 4
    for name in ("row9", "row10"):
        said = rows()[f"mlrf2018/table3/{name}"].expect
        mean = sum(float(said[test] or 0) for test in ("mt04", "mt05", "mt08")) / 3
        assert round(mean, 2) == said["average"] != said["average_printed"], "both are kept: the paper's columns disagree"


@pytest.mark.parametrize("folder", PAPERS)
def test_a_sweep_of_a_paper_makes_a_task_for_every_row_and_trains_none_twice(folder: str) -> None:
    found = {row.id: row for row in resolve(folder, profile="smoke")}
    todo = [row for row, _ in runs(list(found.values()), [1])]
    tasks = make_tasks(todo, sweep_of(folder, "smoke").seeds, Options("demo"))
    assert {task.id for task in tasks} == {name for name, row in found.items() if row.kind == "run"}
    assert not {task.id for task in tasks} & set(QUOTED)
    jobs = [job for level in levels(tasks) for job in jobs_of(level)]
    keys = [job[0].train_key for job in jobs]
    assert len(keys) == len(set(keys)) < len(tasks) == sum(len(job) for job in jobs)


BASELINES = {
    *(f"dou2018/table{i}/row1" for i in (1, 3, 4)),
    *(f"dou2018/table2/row{i}/{pair}" for i in (6, 8) for pair in ("en-de", "zh-en")),
}


def test_variants_start_from_the_baseline_of_their_size_and_pair() -> None:
    for name, row in rows().items():
        if name.startswith("dou2018") and row.spec is not None:
            assert (row.parent is None) == (name in BASELINES), name
            if row.parent is not None and row.parent.spec is not None:
                assert row.parent.spec.data == row.spec.data and row.parent.spec.model.d_model == row.spec.model.d_model
                assert row.parent.spec.train == row.spec.train and row.parent.spec.optim == row.spec.optim
        elif row.spec is not None:
            assert row.parent is None


def test_what_the_papers_report() -> None:
    """Spot checks of every table against the paper: one figure a table, of each kind."""
    said = {name: row.expect for name, row in rows().items()}
    assert said["dou2018/table1/row6"] == {
        "params_added": "+33.6M",
        "train_speed": 1.19,
        "decode_speed": 1.05,
        "bleu": 28.58,
        "delta": 0.94,
    }
    assert said["dou2018/table2/row9/zh-en"] == {"params": "396M", "bleu": 25.10, "significant": True}
    assert [said[f"dou2018/table3/row{i}"]["bleu"] for i in range(1, 5)] == [26.13, 26.32, 26.41, 26.69]
    assert [said[f"dou2018/table4/row{i}"]["bleu"] for i in range(1, 7)] == [26.13, 25.48, 26.59, 26.69, 26.56, 26.54]
    assert said["mlrf2018/table2/row22"] == {"params": "12.55M", "valid": 34.55, "bleu": 33.59}
    assert {name: value for name, value in said["mlrf2018/table3/row12"].items() if name != "average_printed"} == {
        "valid": 42.26,
        "mt04": 48.75,
        "mt05": 41.44,
        "mt08": 35.08,
        "average": 41.76,
    }
    assert [said[f"mlrf2018/table4/row{i}"]["bleu"] for i in range(1, 10)] == [
        33.31,
        33.17,
        33.07,
        33.29,
        33.06,
        33.21,
        33.59,
        33.55,
        33.16,
    ]
    assert [i for i in range(1, 10) if said[f"mlrf2018/table4/row{i}"]["starred"]] == [3, 5, 9]
    assert list(said["mlrf2018/table1/row3"].values()) == [True, True, False]
    assert (said["mlrf2018/fig3/hop6"], said["mlrf2018/fig3/hop8"]) == ({"valid": 34.73, "bleu": 33.54}, {})


def test_rows_of_our_own_say_so() -> None:
    for name in OWN:
        row = rows()[name]
        assert "not in the paper" in row.label, name
        assert not row.expect or name.endswith("/baseline"), "a row that is not the paper's has nothing reported"
