"""A plan: keys, parameters, statuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.ledger.keys import keys_of
from orchestrator.ledger.results import Ledger
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data, keys_for, plan
from orchestrator.sweeps.tasks import make_tasks

Write = Callable[..., Path]


def record(ledger: Ledger, keys: object, status: str = "done", bleu: float = 30.0, tokens: float = 100.0) -> None:
    train, decode, score = (getattr(keys, name) for name in ("train", "decode", "score"))
    ledger.write_train(
        train, {"status": status, "steps": 4, "params": 1000, "tokens_per_second": tokens, "reason": "stopped by ASHA at step 4"}
    )
    if status == "done":
        ledger.write_decode(train, decode, {"sentences_per_second": 5.0}, ["a"])
        ledger.write_score(train, score, {"decode_key": decode, "bleu": bleu, "signature": "s", "chrf": {"score": 1.0}})


def test_statuses(spec: Write, tmp_path: Path) -> None:
    rows = resolve(spec("  a: {}\n  b: {}\n  c: {decode: {beam_size: 2}}\n  d: {train: {max_steps: 3}}\n"))
    ledger = Ledger(tmp_path / "results")
    made = plan(rows, [1], ledger=ledger)
    assert [(row.status, row.same_as) for row in made.rows] == [("new", None), ("shared", "demo/small/a"), ("new", None), ("new", None)]
    a, b, c, d = made.rows
    assert a.keys == b.keys and a.keys.train == c.keys.train and a.keys.decode != c.keys.decode and a.keys.train != d.keys.train
    assert made.trainings == 2 and made.as_json()["totals"]["runs"] == 4
    record(ledger, a.keys)
    record(ledger, d.keys, "stopped")
    again = plan(rows, [1], ledger=ledger)
    assert [row.status for row in again.rows] == ["done", "done", "new", "stopped"] and again.trainings == 1


def test_a_stopped_parent_trains_on(spec: Write, tmp_path: Path) -> None:
    path = spec("  a: {}\n  b: {init_from: a}\n")
    (child,) = resolve(f"{path}#b")
    ledger = Ledger(tmp_path / "results")
    record(ledger, plan([child], [1], ledger=ledger).parents[0].keys, "stopped")
    made = plan([child], [1], ledger=ledger)
    assert [row.status for row in (*made.parents, *made.rows)] == ["stopped", "new"]
    assert (made.trainings, made.trainings_of_parents) == (2, 1)


def test_seeds_have_their_own_keys_and_parents_come_first(spec: Write, tmp_path: Path) -> None:
    path = spec("  a: {}\n  b: {init_from: a, decode: {beam_size: 2}}\n")
    made = plan(resolve(f"{path}#b"), [1, 2], ledger=Ledger(tmp_path / "r"))
    assert [(p.id, p.seed) for p in made.parents] == [("demo/small/a", 1), ("demo/small/a", 2)]
    assert len({row.keys.train for row in (*made.rows, *made.parents)}) == 4
    whole = plan(resolve(path), [1], ledger=Ledger(tmp_path / "r"))
    assert whole.parents == [] and whole.rows[1].keys == made.rows[0].keys


def test_absent_data(spec: Write, tmp_path: Path) -> None:
    path = spec("  a: {data: {corpus: wmt14-en-de, vocab: {src: 100, tgt: 100}}}\n  b: {data: {corpus: wmt14-en-de, vocab: {src: null}}}\n")
    made = plan(resolve(path), [1], ledger=Ledger(tmp_path / "r"))
    assert [row.status for row in made.rows] == ["needs-data"] * 2
    assert made.rows[0].keys.as_dict() == {"train": None, "decode": None, "score": None}
    assert made.rows[0].params is not None and made.rows[1].params is None
    assert any("vocabulary sizes" in note for note in made.notes) and any("data absent: wmt14-en-de" in note for note in made.notes)


def test_parameters_of_table_1(tmp_path: Path) -> None:
    """Dou et al. 2018, table 1: the recipes' reading, with the declared vocabulary sizes."""
    rows = resolve("dou2018/table1")
    made = plan(rows, [1], ledger=Ledger(tmp_path / "r"))
    params = {row.id.rsplit("/", 1)[1]: row.params for row in made.rows}
    assert params["row1"] == 88_007_168
    added = {
        "row2": 0,
        "row3": 14.685e6,
        "row4": 31.493e6,
        "row5": 23.090e6,
        "row6": 33.600e6,
        "row7": 37.795e6,
        "row8": 31.493e6,
        "row9": 23.090e6,
    }
    for name, expected in added.items():
        assert params[name] is not None and abs(params[name] - params["row1"] - expected) <= 10_500, name  # type: ignore[operator]


def test_prepared_sizes_win_over_declared_ones(spec: Write, tmp_path: Path) -> None:
    from orchestrator.data.prepare import prepare

    (row,) = resolve(spec())
    assert row.spec is not None
    ready = prepare(row.spec.data, None, tmp_path / "cache")
    assert Data(None, tmp_path / "cache").vocabulary_sizes(row.spec) == (ready.src_size, ready.tgt_size)
    assert Data(None, tmp_path / "none").vocabulary_sizes(row.spec) == (200, 200)


def test_keys_of_a_row_are_those_of_the_keys_module(spec: Write) -> None:
    data = Data(None)
    path = spec("  a: {}\n  b: {init_from: a}\n")
    child = resolve(f"{path}#b")[0]
    assert child.spec is not None and child.parent is not None and child.parent.spec is not None
    manifest = data.manifest(child.spec.data)
    parent = keys_of(child.parent.spec, manifest, None).train
    assert keys_for(child, data) == keys_of(child.spec, manifest, parent)


@pytest.mark.parametrize("name", ["base", "other"])
def test_names_do_not_enter_keys(spec: Write, name: str) -> None:
    first = keys_for(resolve(spec("  base: {}\n"))[0], Data(None))
    assert keys_for(resolve(spec(f"  {name}: {{label: another, workers: 2, expect: {{bleu: 3}}}}\n"))[0], Data(None)) == first


def test_asha_cuts_no_row_that_others_start_from(spec: Write, tmp_path: Path) -> None:
    """Whether the row comes before or after those that start from it."""
    sweep = "sweep: {seeds: [1], scheduler: {kind: asha, rungs: [2]}}\n"
    rows = resolve(spec("  b: {init_from: a, decode: {beam_size: 2}}\n  a: {}\n  c: {decode: {beam_size: 3}, model: {d_ff: 48}}\n" + sweep))
    section = sweep_of(tmp_path / "spec.yaml").model_dump()
    made = make_tasks(rows, [1], ExecutionOptions(name="demo", results=tmp_path / "r", sweep=section))
    assert {task.name: (task.rungs, task.pinned) for task in made} == {
        "demo/small/a:1": ([2], True),
        "demo/small/b:1": ([2], False),
        "demo/small/c:1": ([2], False),
    }
    (parent, _) = make_tasks(rows[:1], [1], ExecutionOptions(name="demo", results=tmp_path / "r", sweep=section))
    assert (parent.name, parent.rungs) == ("demo/small/a:1", []), "not asked for: no part of the search"
