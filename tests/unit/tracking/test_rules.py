"""What a sweep's files become in MLflow, point by point."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.files.documents import sealed
from orchestrator.ledger.run_lock import RunLock
from orchestrator.tracking.history import text
from orchestrator.tracking.projector import Projector
from orchestrator.tracking.source import SweepRecord, read_result, read_sweep
from orchestrator.tracking.sweeps import reconcile
from tests.unit.tracking.reading import mlflow_client, runs_of


class Seen:
    """What MLflow's own client reads of sweep-1, by row (of seed 1); "": the sweep's run."""

    def __init__(self, results: Path) -> None:
        self.client, self.runs = mlflow_client(results), {run.info.run_name: run for run in runs_of(results)}

    def of(self, name: str):
        return self.runs[f"{name} s1" if name else "fake sweep"]

    def told(self, name: str) -> dict[str, list[tuple[int, float, int]]]:
        """Metric -> (step, value, time) of each point."""
        run = self.of(name)
        history = {key: self.client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
        return {key: [(point.step, point.value, point.timestamp) for point in points] for key, points in history.items()}


@pytest.fixture
def project(fake_results):
    """`project(live)` projects sweep-1 -> what is then in the store."""

    def call(*, live: bool) -> Seen:
        Projector(fake_results.root).sync("sweep-1", live=live)
        return Seen(fake_results.root)

    return call


def test_final_figures_are_rounded_and_stand_at_the_runs_end_without_a_step(fake_results, project) -> None:
    _, rows = fake_results.typical()
    run = fake_results.run_dir(rows["dense"])
    score = run / "score" / f"{rows['dense']['keys']['score'][:16]}.json"
    for path, when in ((run / "train.json", 1_700_000_900), (score, 1_700_001_000)):
        os.utime(path, (when, when))
    for path in (run / "decode").iterdir():
        os.utime(path, (1_700_000_950, 1_700_000_950))
    store = project(live=False)
    told = store.told("dense")
    end = 1_700_001_000_000
    finals = {"bleu": 28.42, "chrf": 51.5, "params": 123_456.0, "steps": 20.0, "seconds": 12.5}
    finals |= {"tokens_per_second": 4322.0, "sentences_per_second": 55.5}
    assert {name: told[name] for name in finals} == {name: [(0, value, end)] for name, value in finals.items()}
    assert told["train/loss"] == [(step, float(f"{5 / step:.5g}"), 1_700_000_200_000 + step * 1000) for step in range(1, 21)]
    assert (store.of("dense").info.start_time, store.of("dense").info.end_time) == (1_700_000_100_000, end)
    stopped = 1_700_000_205_000
    assert store.told("linear")["params"] == [(0, 123_456.0, stopped)], "a stopped run ends with its last report, not with its record"
    assert store.of("linear").info.end_time == stopped
    assert "params" not in store.told("cut"), "a run that may go on has no final figures"


def test_the_sweeps_own_run_has_the_best_row_the_means_and_the_table(fake_results, project) -> None:
    _, rows = fake_results.typical()
    again = fake_results.row("dense", seed=2)
    fake_results.finished(again, bleu=28.02)
    for row, when in ((rows["baseline"], 1), (rows["dense"], 2), (again, 3)):
        for path in fake_results.run_dir(row).rglob("*.*"):
            os.utime(path, (1_700_000_300 + when,) * 2)
    fake_results.sweep([*rows.values(), again])
    first = project(live=False)
    told, tags = first.told(""), first.of("").data.tags
    assert [(step, value) for step, value, _ in told["rows/dense"]] == [(4, 28.22)], "once, of all seeds"
    assert [value for _, value, _ in told["bleu"]][:3] == [27.64, 28.42, 28.22] and "rows/linear" not in told
    assert tags["row"] == "best: dense" and tags["status"] == "3 done, 1 stopped, 1 diverged, 1 interrupted, 1 pending"
    assert "| dense | 2 | 28.22 ± 0.28 | 51.50 |  | 4,322 | 123,456 | done |" in tags["mlflow.note.content"]
    assert "| linear | 1 |  |  |  | 4,322 | 123,456 | stopped at step 5 |" in tags["mlflow.note.content"]


def test_every_state_has_its_status(fake_results, project) -> None:
    _, rows = fake_results.typical()
    failed = fake_results.row("failed")
    fake_results.spec(failed)
    fake_results.train(failed, "failed", reason="no memory")
    poor = fake_results.row("poor", failed_below=30.0)
    fake_results.finished(poor, bleu=29.0)
    fake_results.sweep([*rows.values(), failed, poor])
    names = ("", "baseline", "linear", "mlrf", "failed", "poor", "cut")
    store = project(live=True)
    live = ["RUNNING", "FINISHED", "FINISHED", "FAILED", "FAILED", "FAILED", "RUNNING"]
    assert [store.of(name).info.status for name in names] == live
    store = project(live=False)
    assert [store.of(name).info.status for name in names] == ["KILLED", *live[1:-1], "KILLED"]
    states = [store.of(name).data.tags["nmt.status"] for name in names]
    assert states == ["interrupted", "done", "stopped", "diverged", "failed", "failed", "interrupted"]
    assert store.of("poor").data.tags["nmt.reason"] == "BLEU 29.00 is under 30"
    with RunLock(fake_results.run_dir(rows["cut"]) / "lock"):
        assert project(live=False).of("cut").info.status == "RUNNING", "somebody else trains it"


def test_a_row_that_is_no_longer_the_sweeps_does_not_run(fake_results, project) -> None:
    row = fake_results.row("one")
    fake_results.spec(row)
    fake_results.history(row, 1, 2)
    fake_results.sweep([row])
    assert project(live=True).of("one").info.status == "RUNNING"
    fake_results.sweep([fake_results.row("other")])
    store = project(live=True)
    assert (store.of("one").info.status, store.of("one").data.tags["nmt.kind"]) == ("KILLED", "superseded")
    for name in ("one", "other", "one"):
        fake_results.sweep([fake_results.row(name)])
        store = project(live=False)
    assert store.of("one").data.tags["nmt.kind"] == "run", "again a row of the sweep"
    other = fake_results.row("one", seed=2)
    edited = other | {"spec": other["spec"] | {"model": {}}}
    for now, kind in ((other, "run"), (edited, "superseded")):
        fake_results.sweep([now], earlier=[row])
        assert project(live=False).of("one").data.tags["nmt.kind"] == kind, "other seeds of a row stay, until the row is edited"


def test_a_row_is_its_address_seed_and_keys(fake_results) -> None:
    row = fake_results.row("one")
    keys = row["keys"]
    others = [row | {"seed": 2}, row | {"id": "fake/table1/two"}]
    again = row | {"label": "x", "also": {"valid": {"keys": keys}}}
    others += [row | {"keys": keys | {kind: "0" * 64}} for kind in ("train", "decode", "score")]
    sweep = read_sweep(fake_results.root / "sweeps" / f"{fake_results.sweep([row, *others, again])}.json")
    found = [each.key for each in sweep.rows]
    assert len(set(found)) == 6 and found[0] == found[-1]
    assert sweep.started == 1_700_000_000_000, "milliseconds"


def test_a_run_with_a_score_missing_is_not_done(fake_results, tmp_path) -> None:
    other = "9" * 64
    row = fake_results.row("one", also={"valid": {"keys": {"train": None, "decode": None, "score": other}}})
    fake_results.finished(row)
    sweep = read_sweep(fake_results.root / "sweeps" / f"{fake_results.sweep([row])}.json")

    def state() -> tuple[str, dict[str, float]]:
        found = read_result([fake_results.root], sweep.rows[0], sweep)
        return found.state, {name: value for name, value in found.metrics.items() if name.startswith("bleu")}

    assert state() == ("running", {"bleu": 27.64})
    path = fake_results.run_dir(row) / "score" / f"{other[:16]}.json"
    path.write_text(json.dumps(sealed({"bleu": 33.0}, other)))
    assert state() == ("done", {"bleu": 27.64, "bleu_valid": 33.0})
    path.write_text(json.dumps(sealed({"bleu": 33.0}, "8" * 64)))
    assert read_result([fake_results.root], sweep.rows[0], sweep) is None, "a record of another key"
    (fake_results.run_dir(row) / "score" / f"{row['keys']['score'][:16]}.json").unlink()
    path.write_text(json.dumps(sealed({"bleu": 33.0}, other)))
    assert state()[0] == "running"


def test_a_damaged_record_here_gives_way_to_the_one_in_a_mirror(fake_results, tmp_path) -> None:
    """MLflow shows what `table` reads, and never a file whose digest is wrong."""
    row = fake_results.row("one")
    fake_results.finished(row)
    sweep = read_sweep(fake_results.root / "sweeps" / f"{fake_results.sweep([row])}.json")
    here = tmp_path / "here" / row["keys"]["train"][:16]
    shutil.copytree(fake_results.run_dir(row), here)
    for name in ("train.json", f"score/{row['keys']['score'][:16]}.json"):
        (here / name).write_text((here / name).read_text().replace("27.64", "99.64").replace("123456", "9"))
    found = read_result([tmp_path / "here", fake_results.root], sweep.rows[0], sweep)
    assert found is not None and (found.metrics["bleu"], found.metrics["params"]) == (27.64, 123456)
    assert found.view.files["score.json"].is_relative_to(fake_results.root)
    assert found.view.files["hypotheses.txt"].is_relative_to(tmp_path / "here")
    alone = read_result([tmp_path / "here"], sweep.rows[0], sweep)
    assert alone is not None and alone.state == "running" and not {"bleu", "params"} & set(alone.metrics)


def test_control_characters_reach_no_tag_and_no_page(fake_results, project) -> None:
    assert text("one\x1b[31m\ntwo\u202e", 99) == "one\\x1b[31m\ntwo\\u202e"
    row = fake_results.row("one")
    fake_results.train(row, "failed", reason="a | <b>\x1b")
    fake_results.sweep([row])
    assert r"failed: a \| \<b\>\\x1b" in project(live=False).of("").data.tags["mlflow.note.content"]


def test_one_sweep_that_cannot_be_written_or_read_does_not_end_reconcile(fake_results, monkeypatch) -> None:
    for name in ("a", "b", "c"):
        fake_results.sweep([fake_results.row(name)], name)
    (fake_results.root / "sweeps" / "aa.json").write_text('{"rows": [')
    tried: list[str] = []

    def project(self, sweep: SweepRecord, *, live: bool) -> Counter[str]:
        tried.append(sweep.id)
        if sweep.id in failing:
            raise OSError("no such run")
        return Counter(pending=1)

    monkeypatch.setattr("orchestrator.tracking.sweeps.Projector.project", project)
    failing = {"b"}
    counts, (torn, line) = reconcile(fake_results.root)
    assert counts == {"pending": 2} and tried == ["a", "b", "c"]
    assert "aa.json" in torn and line.startswith("b: MLflow cannot be written: ")
    failing = {"a", "b", "c"}
    with pytest.raises(OSError, match="no such run"):
        reconcile(fake_results.root)
