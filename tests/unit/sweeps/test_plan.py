"""What a plan calls new, shared, done, stopped or failed, what it counts, and that a task has the plan's keys."""

from rich.console import Console

from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.lifecycle.translator import task_of
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.sweeps import preflight
from orchestrator.sweeps.live import LiveProgress
from orchestrator.sweeps.options import ExecutionOptions, RowOptions
from orchestrator.sweeps.plan import UNDECODED, Data, Plan, Planned, also_keys, keys_for, plan
from orchestrator.sweeps.task import make_tasks
from tests.unit.conftest import refused

FAMILY = """\
  first: {also: {valid: {test: valid}}}
  second: {init_from: first, model: {d_ff: 40}}
  third: {init_from: second, model: {d_ff: 48}, also: {valid: {test: valid}}}
"""


def test_a_task_has_the_keys_of_the_plan_seed_by_seed(spec, tmp_path) -> None:
    (row,) = resolve(f"{spec(FAMILY)}#third")
    made = plan([row], [2, 3], ledger=Ledger(tmp_path))
    planned = {f"{each.id}:{each.seed}": each for each in (*made.parents, *made.rows)}
    tasks = {task.name: task for task in make_tasks([row], [2, 3], ExecutionOptions(name="demo", results=tmp_path, cache_dir=tmp_path))}
    assert [f"{each.id}:{each.seed}" for each in made.parents] == [f"demo/small/{n}:{seed}" for seed in (2, 3) for n in ("first", "second")]
    assert {name: task.keys for name, task in tasks.items()} == {name: each.keys for name, each in planned.items()}
    assert len({each.keys.train for each in planned.values()}) == 6
    for seed in (2, 3):
        child, parent = planned[f"demo/small/third:{seed}"], tasks[f"demo/small/second:{seed}"]
        assert tasks[f"demo/small/third:{seed}"].parent_key == parent.train_key
        valid = child.also["valid"]
        assert valid.train == child.keys.train and valid.decode != child.keys.decode and valid.score != child.keys.score
        assert tasks[f"demo/small/third:{seed}"].also["valid"].keys == valid
    seeded = row.at(3)
    assert keys_for(seeded, Data(None)) == planned["demo/small/third:3"].keys
    assert also_keys(seeded, Data(None)) == planned["demo/small/third:3"].also


def test_a_parent_that_is_asked_for_at_one_seed_is_a_parent_at_another(spec, tmp_path) -> None:
    path = spec("  a: {}\n  b: {init_from: a, decode: {beam_size: 2}}\nsweep: {seeds: [1]}\n")
    rows = resolve(path)
    made = plan(rows, [1, 2], ledger=Ledger(tmp_path))
    assert made.parents == [] and len(made.rows) == 4
    alone = plan(rows[1:], [1, 2], ledger=Ledger(tmp_path))
    assert [(each.id, each.seed) for each in alone.parents] == [("demo/small/a", 1), ("demo/small/a", 2)]
    assert alone.parents[1].keys == next(each.keys for each in made.rows if (each.id, each.seed) == ("demo/small/a", 2)), "its child's seed"


def test_a_start_from_another_vocabulary_or_from_other_shapes_is_told(spec, tmp_path, capsys) -> None:
    rows = "  a: {}\n  same: {init_from: a, data: {max_length: 9}}\n  b: {init_from: a, data: {subword: {size: 99}}}\n"
    rows = resolve(spec(rows + "  c: {init_from: a, model: {d_ff: 8}}"))
    options = ExecutionOptions(name="demo", results=tmp_path, cache_dir=tmp_path)
    preflight.prepare_corpora(make_tasks(rows, [1, 2], options), None, tmp_path)
    told = [line for line in capsys.readouterr().err.splitlines() if "expected text" not in line]
    assert told[0] == "warning: demo/small/b: starts from a row with another vocabulary; embeddings of equal size are copied"
    assert [line.split(": ")[1] for line in told[1:]] == ["demo/small/b", "demo/small/c"] and "output.weight, " in told[1]
    assert "feed_forward.inner.weight, " in told[2] and told[2].endswith(" and 9 more, which have other shapes there")


def test_workers_of_the_command_line_win_over_the_rows(spec, tmp_path) -> None:
    rows = resolve(spec("  a: {workers: 3}\n  b: {}\n"))
    for asked, found in ((None, [3, 1]), (2, [2, 2])):
        made = make_tasks(rows, [1], ExecutionOptions(name="demo", results=tmp_path, cache_dir=tmp_path, workers=asked))
        assert [task.workers for task in made] == found


def test_statuses_in_the_order_in_which_they_count(spec, tmp_path) -> None:
    """twin is equal to first; more is equal but for a scoring of its own, which less has too."""
    low = "{also: {low: {lowercase: true}}}"
    rows = resolve(spec(f"  first: {{also: {{valid: {{test: valid}}}}}}\n  twin: {{}}\n  more: {low}\n  less: {low}\n"))
    ledger = Ledger(tmp_path)
    found = plan(rows, [1], ledger=ledger)
    assert [(each.status, each.same_as) for each in found.rows] == [
        ("new", None), ("shared", "demo/small/first"), ("new", "demo/small/first"), ("shared", "demo/small/first")
    ]  # fmt: skip
    assert found.trainings == 1
    keys = found.rows[0].keys
    ledger.write_train(keys.train, {"status": "stopped"})
    assert [each.status for each in plan(rows, [1], ledger=ledger).rows] == ["stopped", "shared", "stopped", "shared"]
    ledger.write_train(keys.train, {"status": "done"})
    ledger.write_record(keys.train, "score", keys.score, {"bleu": 1.0})
    undecoded = plan(rows, [1], ledger=ledger).rows
    assert [each.status for each in undecoded] == ["new", "done", "new", "shared"]
    assert (undecoded[0].trained, undecoded[0].reason) == (None, UNDECODED), "no weights, as in a mirror"
    ledger.write_decode(keys.train, found.rows[0].also["valid"].decode, {}, ["a"])
    unscored = plan(rows, [1], ledger=ledger).rows[0]
    assert (unscored.trained, unscored.scored, unscored.reason) == ("done", ("",), "")
    ledger.write_record(keys.train, "score", found.rows[0].also["valid"].score, {"bleu": 1.0})
    assert [each.status for each in plan(rows, [1], ledger=ledger).rows] == ["done", "done", "new", "shared"]
    assert set(found.rows[0].as_json()["also"]) == {"valid"}


def test_trainings_are_counted_once_and_with_the_parents_that_are_not_done() -> None:
    def one(train: str, status: str) -> Planned:
        return Planned("a/b/c", 1, Keys(train, "d", "s"), 1, status)

    rows = [one("1", "new"), one("1", "new"), one("2", "new"), one("3", "done"), one("4", "stopped"), one("5", "shared")]
    parents = [one("6", "new"), one("7", "stopped"), one("8", "done"), one("9", "failed"), one("1", "new")]
    made = Plan(rows=rows, parents=parents)
    assert made.trainings == 4, "1, 2, 6 and 7"
    assert made.as_json()["totals"] == {"new": 3, "done": 1, "stopped": 1, "shared": 1, "runs": 6, "trainings": 4}


def test_absent_data(spec, tmp_path) -> None:
    path = spec("  a: {data: {corpus: wmt14-en-de, vocab: {src: 100, tgt: 100}}}\n  b: {data: {corpus: wmt14-en-de, vocab: {src: null}}}\n")
    made = plan(resolve(path), [1], ledger=Ledger(tmp_path / "r"))
    assert [row.status for row in made.rows] == ["needs-data"] * 2
    assert made.rows[0].keys.as_dict() == {"train": None, "decode": None, "score": None}
    assert made.rows[0].params is not None and made.rows[1].params is None
    assert any("vocabulary sizes" in note for note in made.notes) and any("data absent: wmt14-en-de" in note for note in made.notes)
    path.write_text(path.read_text() + "  c: {init_from: a, data: {corpus: wmt14-en-de}}\n", encoding="utf-8")
    first, *others = refused(make_tasks, resolve(path), [1], ExecutionOptions(name="demo", results=tmp_path))
    assert first.startswith("demo/small/a: corpus wmt14-en-de lies in files") and not others, "a line for each corpus"
    untrained, absent = refused(task_of, resolve(path)[-1], RowOptions(results=tmp_path / "r"))
    assert untrained.startswith(f"demo/small/c: no scored run in {tmp_path / 'r'} for seed 1; expected nmt-ablate run ")
    assert absent.startswith("demo/small/c: corpus wmt14-en-de lies in files"), "the row that was asked for, not its parent"


def test_a_task_finds_files_below_the_working_folder_from_another(spec, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dict.txt").write_text("a 9\n", encoding="utf-8")
    rows = resolve(spec("  a: {data: {subword: {dictionary: [dict.txt]}}}\n"))
    (made,) = make_tasks(rows, [1], ExecutionOptions(name="demo"))
    assert made.data_dir == str(tmp_path.resolve())


def test_the_forecast_counts_devices_as_the_cap_does(spec, tmp_path) -> None:
    made = make_tasks(resolve(spec("  a: {workers: 2, train: {threads: 3}}\n")), [1], ExecutionOptions(name="demo", results=tmp_path))
    counted = [LiveProgress(made, Console(), Ledger(tmp_path), engine=engine).runs["demo/small/a:1"] for engine in ("local", "ray")]
    assert [run.devices for run in counted] == [3, 6]


def test_asha_cuts_no_row_that_others_start_from(spec, tmp_path) -> None:
    """Whether the row comes before or after those that start from it."""
    sweep = "sweep: {seeds: [1], scheduler: {kind: asha, rungs: [2]}}\n"
    rows = resolve(spec("  b: {init_from: a, decode: {beam_size: 2}}\n  a: {}\n  c: {decode: {beam_size: 3}, model: {d_ff: 48}}\n" + sweep))
    section = sweep_of(tmp_path / "spec.yaml").model_dump()
    made = make_tasks(rows, [1], ExecutionOptions(name="demo", results=tmp_path / "r", sweep=section))
    assert {task.name.rpartition("/")[2]: task.pinned for task in made} == {"a:1": True, "b:1": False, "c:1": False}
    assert all(task.rungs == [2] for task in made)
    (parent, _) = make_tasks(rows[:1], [1], ExecutionOptions(name="demo", results=tmp_path / "r", sweep=section))
    assert (parent.name, parent.rungs) == ("demo/small/a:1", []), "not asked for: no part of the search"
