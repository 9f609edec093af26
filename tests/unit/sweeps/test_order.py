"""The order of a sweep, and what of it is final: decisions of many rows, on records of a ledger."""

import json
import random
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from orchestrator import paths
from orchestrator.engines.execute import Local
from orchestrator.errors import UserError
from orchestrator.files.canonical import sha256
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.layout import belongs
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.sweep_files import read_sweeps
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.driver import Sweep
from orchestrator.sweeps.names import address_of
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.status import sweep_status
from orchestrator.sweeps.task import Task, group_jobs, topological_levels
from tests.unit.training.support import SPEC


def task(name: str, *, training: str | None = None, parent: str | None = None, results: Path = Path("results"), **more) -> Task:
    """A row with the keys of its own name. training: name of the row whose training it shares; parent: of the one that it starts from."""
    keys = Keys(sha256(training or name), sha256(f"decode {name}"), sha256(f"score {name}"))
    parent_key = None if parent is None else sha256(parent)
    return Task(id=f"a/b/{name}", seed=1, label=name, spec=SPEC, keys=keys, results=str(results), parent_key=parent_key, **more)


def sweep(tasks: list[Task], tmp_path: Path, **scheduler) -> Sweep:
    return Sweep(
        tasks, ExecutionOptions(name="demo", results=tmp_path, sweep={"scheduler": {"kind": "fifo", "rungs": [5]} | scheduler}), Local()
    )


def names(tasks: list[Task]) -> str:
    return "".join(each.label for each in tasks)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_pinned_rows_start_first_and_the_rest_in_the_order_that_the_seed_draws(tmp_path, seed):
    """ASHA decides by order of arrival: the order of a table, which is that of growing models, must not decide."""
    tasks = [task(name, pinned=name in "cf") for name in "abcdefgh"]
    rest = list("abdegh")
    random.Random(seed).shuffle(rest)
    drawn = sweep(tasks, tmp_path, kind="asha", shuffle_seed=seed)
    assert names(drawn._start_order(tasks)) == "cf" + "".join(rest) == names(drawn._start_order(tasks)), "the same each time"
    assert names(drawn._start_order(tasks[1:6])) == "cf" + "".join(name for name in rest if name in "bde"), "goes on in this order"
    assert names(tasks) == "abcdefgh" and rest != list("abdegh")


def test_a_sweep_of_other_seeds_or_rows_makes_no_orphans(tmp_path):
    for tasks in ([task("a"), task("b")], [task("a", training="other")], [task("c")]):
        sweep(tasks, tmp_path)._write_sweep()
    assert sorted(read_sweeps(tmp_path).rows) == sorted(map(sha256, ("b", "other", "c"))), "the edited row alone has an orphan"


def test_asha_decides_as_the_spec_says(tmp_path):
    tasks = [task("a", pinned=True), task("b")]
    asha = sweep(tasks, tmp_path, kind="asha", rungs=[3, 9], reduction_factor=4.0, metric="valid/bleu").asha
    assert asha is not None and (asha.rungs, asha.eta, asha.sign, asha.pinned) == ([3, 9], 4.0, 1.0, {"a/b/a:1"})
    assert sweep(tasks, tmp_path).asha is None


@pytest.mark.parametrize(
    ("status", "bleu", "stopped_by", "final"),
    [
        (None, None, "", False), ("done", 20.0, "", True), ("done", None, "", False), ("diverged", None, "", True),
        ("failed", None, "", False), ("stopped", None, "a/b/a:1", True), ("stopped", None, "a/b/other:1", False),
    ],
)  # fmt: skip
def test_what_a_sweep_leaves_as_it_is(tmp_path, status, bleu, stopped_by, final):
    """It goes on with a run that lacks its score, or that another sweep's scheduler stopped."""
    one, bounded = task("a", results=tmp_path), task("a", results=tmp_path, failed_below=30.0)
    ledger = Ledger(tmp_path)
    if status is not None:
        ledger.write_train(one.train_key, {"status": status})
    if bleu is not None:
        ledger.write_record(one.train_key, "score", sha256("score a"), {"bleu": bleu})
    drawn = sweep([one], tmp_path)
    assert [drawn._is_final(each, {stopped_by: 5}) for each in (one, bounded)] == [final, final]
    drawn._write_train(one, {"status": "failed", "steps": 0})
    assert (ledger.read_train(one.train_key) or {})["status"] == (status if status in ("done", "diverged") else "failed")


def test_a_stopped_run_is_recorded_with_its_last_rung(tmp_path):
    known = {"a": ("done", 9), "b": ("failed", 0), "c": ("stopped", 2), "d": ("stopped", 7)}
    tasks, ledger = [task(name, results=tmp_path) for name in known], Ledger(tmp_path)
    drawn = sweep(tasks, tmp_path, kind="asha")
    for one, (status, steps) in zip(tasks, known.values(), strict=True):
        ledger.write_train(one.train_key, {"status": status, "steps": steps})
        drawn.asha.decide(one.name, 5, float("nan"))
    drawn._record_stopped()
    records = [ledger.read_train(one.train_key) for one in tasks]
    assert [(record["status"], record["steps"]) for record in records] == [("done", 9), ("stopped", 5), ("stopped", 5), ("stopped", 7)]


@pytest.mark.parametrize(("status", "starts"), [("done", True), ("diverged", False), ("failed", False), ("stopped", True)])
def test_a_child_starts_where_its_parent_has_weights(tmp_path, status, starts):
    parent, child = task("a"), task("b", parent="a")
    Ledger(tmp_path).write_train(parent.train_key, {"status": status, "reason": "loss"})
    assert sweep([parent, child], tmp_path)._blocked([child], {}) == (
        {} if starts else {child.name: f"its parent {parent.name} {status}: loss"}
    )


def test_a_parent_whose_translations_failed_has_weights(tmp_path):
    parent, child, failed = task("a", results=tmp_path), task("b", parent="a"), {"a/b/a:1": "OverflowError"}
    Ledger(tmp_path).write_train(parent.train_key, {"status": "done"})
    assert sweep([parent, child], tmp_path)._blocked([child], failed) == {child.name: "its parent a/b/a:1 failed: OverflowError"}
    (parent.run_dir / "weights").mkdir()
    (parent.run_dir / "weights" / "last.json").touch()
    assert sweep([parent, child], tmp_path)._blocked([child], failed) == {}


def test_neither_two_tables_nor_a_table_and_its_row_share_the_file_of_a_sweep(tmp_path, spec, monkeypatch):
    Sweep([], ExecutionOptions(name="mine/a-b", results=tmp_path), Local())._write_sweep()
    with pytest.raises(UserError, match=r"mine-a-b\.json: belongs to mine/a-b, found mine-a/b; expected another --results"):
        Sweep([], ExecutionOptions(name="mine-a/b", results=tmp_path), Local())
    path = spec("  base: {}\n  other: {optim: {label_smoothing: 0.2}}\n")
    found = [address_of(f"{path}{rows}", resolve(f"{path}{rows}")) for rows in ("", "#other", "#other,base")]
    assert found[:2] == ["demo/small", "demo/small/other"] and found[2].startswith("demo/small+")
    names = ["a/b@m+1:tuned", *(f"a/b@{profile}.yaml" for profile in ("my own", "my-öwn", "x" * 300))]
    slugs = [ExecutionOptions(name=name).slug for name in names]
    assert (
        slugs[0] == "a-b@m+1-tuned"
        and len(set(slugs)) == 4
        and all(belongs(f"sweeps/{slug}{end}") for slug in slugs for end in (".json", ".asha.json"))
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart" / "fusion").mkdir(parents=True)
    assert address_of("quickstart/fusion", resolve("quickstart/fusion")) == "quickstart/fusion"


def test_parents_train_before_children_and_equal_trainings_once_and_all_in_one_session(tmp_path):
    grandparent, parent, child, other = (task(n, parent=p) for n, p in (("g", None), ("p", "g"), ("c", "p"), ("o", "elsewhere")))
    assert [names(level) for level in topological_levels([child, other, parent, grandparent])] == ["og", "p", "c"]
    twin = task("t", training="g", workers=4)
    assert [names(job) for job in group_jobs([grandparent, other, twin])] == ["gt", "o"]
    assert [each.workers for each in group_jobs([grandparent, twin])[0]] == [1, 1], "on the workers of the first"
    engine, tasks = MagicMock(), [task("p", results=tmp_path), task("c", parent="p", results=tmp_path, workers=2)]
    engine.run.return_value = {}
    made = Sweep(tasks, ExecutionOptions(name="demo", results=tmp_path, engine="ray"), engine)
    made._run_pending(tasks)
    made._write_sweep()
    assert [run.devices for run in sweep_status(Ledger(tmp_path))[0].runs] == [1, 2], "as the cap counts"
    assert engine.session.call_args.args[1] == 2 and [call[0] for call in engine.method_calls] == ["session", "run", "run"]


@pytest.mark.slow
def test_a_parent_without_weights_trains_again_before_its_child(cli, spec, tmp_path, monkeypatch):
    """A row that starts from a row whose results are shipped without weights."""
    rows = "  a: {train: {max_steps: 2}}\n  b: {train: {max_steps: 2}, init_from: a}\n"
    path, shipped, cache = spec(rows), tmp_path / "shipped", ["--cache-dir", tmp_path / "cache"]
    run = ["--engine", "local", "--no-tracking", "--json", *cache]
    code, out, err = cli("run", f"{path}#a", *run, "--results", tmp_path / "elsewhere")
    assert code == 0, err
    assert cli("results", "export", shipped, "--results", tmp_path / "elsewhere")[0] == 0
    alone = json.loads(out)

    monkeypatch.setattr(paths, "PUBLISHED_LEDGER", shipped)
    results = ["--results", tmp_path / "results"]
    assert "nothing to do" in cli("run", f"{path}#a", *run, *results)[2], "a shipped result is enough by itself"
    (sweep,) = json.loads(cli("status", "--json", *results)[1])["sweeps"]
    assert [row["status"] for row in sweep["rows"]] == ["done"]
    planned = json.loads(cli("plan", path, "--json", *cache, *results)[1])
    assert [row["status"] for row in planned["rows"]] == ["new", "new"] and "weights" in planned["rows"][0]["reason"]
    assert [planned["cost"][name]["trainings"] for name in ("done", "left")] == [0, 2]
    code, out, err = cli("run", f"{path}#b", *run, *results)
    assert code == 0 and [json.loads(line)["status"] for line in out.splitlines()] == ["done", "done"], err
    trained = [json.loads(file.read_text()) for file in (tmp_path / "results").glob("*/train.json")]
    assert len(trained) == 2 and alone["weights_sha256"] in {record["weights_sha256"] for record in trained}
    assert "nothing to do" in cli("run", f"{path}#b", *run, *results)[2]
