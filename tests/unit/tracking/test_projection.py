"""Files to MLflow and back: states, values, idempotence, rebuilding. Uses the real store on sqlite."""

import getpass
import itertools
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from orchestrator.tracking import projector
from orchestrator.tracking.store import MlflowStore
from orchestrator.tracking.sweeps import Projector, reconcile
from tests.command import call, start
from tests.unit.tracking.reading import mlflow_client, runs_of

KILLS = [("create", 3), ("write", 1), ("write_artifacts", 2), ("write_status", 1)]


def dump(results: Path, sweep_id: str = "sweep-1") -> dict[str, Any]:
    """Everything the store says of a sweep, without its own run ids. Fails on a point logged twice."""
    client, found = mlflow_client(results), {}
    runs = runs_of(results, sweep_id)
    names = {run.info.run_id: run.info.run_name for run in runs}
    for run in runs:
        points = {
            key: [(p.step, p.value, p.timestamp) for p in client.get_metric_history(run.info.run_id, key)] for key in run.data.metrics
        }
        for key, values in points.items():
            assert len({step for step, _, _ in values}) == len(values), f"{run.info.run_name}: {key} has a step twice"
        tags = {
            key: names.get(value) or re.sub(r"(?<=/runs/)\w+", lambda found: names[found[0]], value) for key, value in run.data.tags.items()
        }
        assert run.info.run_name not in found, f"{run.info.run_name} is there twice"
        info = run.info
        artifacts = sorted(item.path for item in client.list_artifacts(info.run_id))
        models = [client.get_logged_model(each.model_id).metrics for each in run.outputs.model_outputs]
        of_model = sorted((metric.key, metric.value) for metrics in models for metric in metrics or ())
        found[info.run_name] = [info.status, info.start_time, info.end_time, tags, run.data.params, points, artifacts, of_model]
    return found


def test_every_state_and_value(fake_results) -> None:
    sweep_id, rows = fake_results.typical()
    own = Projector(fake_results.root)
    assert own.sync(sweep_id) == Counter(done=2, stopped=1, diverged=1, running=1, pending=1)
    fake_results.finished(rows["cut"])
    fake_results.finished(rows["later"])
    assert own.sync(sweep_id, live=False) == Counter(done=4, stopped=1, diverged=1)
    runs = dump(fake_results.root)
    _, start, end, tags, params, points, artifacts, _ = runs["dense s1"]
    assert end > start
    assert tags["mlflow.parentRunId"] == "fake sweep"
    expected = {
        "kind": "run", "sweep": sweep_id, "paper": "fake2020", "table": "table1", "row": "fake/table1/dense", "seed": "1", "status": "done",
    }  # fmt: skip
    assert {f"nmt.{key}": value for key, value in expected.items()}.items() <= tags.items()
    assert (tags["row"], runs["linear s1"][3]["status"]) == ("dense", "stopped at step 5")
    assert tags["mlflow.user"] == getpass.getuser() and tags["mlflow.source.git.commit"] == "c0ffee"
    assert tags["nmt.train_key"] == rows["dense"]["keys"]["train"]
    assert tags["nmt.signature"] == params["signature"] == "nrefs:1|case:mixed|tok:13a"
    assert params["model.encoder.connection.kind"] == "dense" and params["optim.peak_lr"] == "0.002"
    assert points["valid.bleu"][3][:2] == (4, 2.0)
    assert artifacts == ["capsule.json", "hypotheses.txt", "score.json", "spec.yaml", "train.json"]
    assert not list(Path.cwd().glob("mlruns*")), "MLflow wrote into the working directory"


@pytest.mark.slow
def test_again_changes_nothing_and_from_nothing_is_the_same(fake_results) -> None:
    _, rows = fake_results.typical()
    assert reconcile(fake_results.root) == (Counter(done=2, stopped=1, diverged=1, interrupted=1, pending=1), [])
    first = dump(fake_results.root)
    assert first["cut s1"][0] == "KILLED" and first["cut s1"][3]["nmt.status"] == "interrupted"
    assert first["fake sweep"][0] == "KILLED"
    reconcile(fake_results.root)
    assert dump(fake_results.root) == first

    fake_results.history(rows["cut"], 2, 20)  # resumed from step 1: steps 2 and 3 are told twice
    fake_results.train(rows["cut"])
    fake_results.score(rows["cut"])
    reconcile(fake_results.root)
    fake_results.train(rows["linear"], steps=20)  # a later sweep went on, unseen, from where ASHA had stopped it
    fake_results.score(rows["linear"], bleu=30.0)
    reconcile(fake_results.root)
    resumed = dump(fake_results.root)
    assert resumed["linear s1"][5]["steps"][0][1] == 20 and resumed["fake sweep"][5]["bleu"][-1][1] == 30
    assert [step for step, _, _ in resumed["cut s1"][5]["train/loss"]] == list(range(1, 21))

    (fake_results.root / "mlflow.db").unlink()
    said = call("reconcile", "--results", fake_results.root)
    assert said == (0, "", "4 done, 1 diverged, 1 pending\n"), "making the store says nothing"
    assert dump(fake_results.root) == resumed


def sync_until(results: Path, sweep: str, method: str, count: int) -> None:
    """Projects a sweep, and dies after so many calls of a method of the store."""
    plain, calls = getattr(MlflowStore, method), itertools.count(1)

    def dying(self: MlflowStore, *args, **kwargs):
        done = plain(self, *args, **kwargs)
        if next(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(MlflowStore, method, dying)
    Projector(results).sync(sweep)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "count"), KILLS)
def test_killed_between_two_writes(fake_results, forked, method: str, count: int) -> None:
    sweep_id, _ = fake_results.typical()
    assert forked(lambda: sync_until(fake_results.root, sweep_id, method, count)) == -signal.SIGKILL
    assert any(run[0] == "RUNNING" for run in dump(fake_results.root).values())
    reconcile(fake_results.root)
    whole = dump(fake_results.root)
    (fake_results.root / "mlflow.db").unlink()
    reconcile(fake_results.root)
    assert dump(fake_results.root) == whole
    assert all(run[0] != "RUNNING" for run in whole.values())


@pytest.mark.slow
def test_two_processes_make_one_run_each(fake_results) -> None:
    fake_results.typical()
    both = [start("reconcile", "--results", fake_results.root) for _ in range(2)]
    assert [process.wait(240) for process in both] == [0, 0]
    assert len(dump(fake_results.root)) == 6


def test_long_odd_and_secret_values(fake_results) -> None:
    spec = {"note": "x" * 9000, "weird key!": 1, "uri": "https://me:hunter2@host/x?password=hunter2&a=1", "empty": {}, "none": None}
    row = fake_results.row("dense", spec=spec | {f"p{i}": i for i in range(250)})
    fake_results.finished(row, steps=1500)
    fake_results.sweep([row])
    reconcile(fake_results.root)
    (run,) = (run for run in runs_of(fake_results.root) if run.data.tags["nmt.kind"] == "run")
    assert len(run.data.params["note"]) == 6000 and run.data.params["weird key_"] == "1" and run.data.params["p249"] == "249"
    assert run.data.params["uri"] == "https://***@host/x?password=***&a=1"
    assert len(mlflow_client(fake_results.root).get_metric_history(run.info.run_id, "train/loss")) == 1500


def test_a_run_deleted_in_the_ui_is_made_anew_and_a_deleted_experiment_restored(fake_results) -> None:
    row = fake_results.row("baseline")
    sweep_id = fake_results.sweep([row])
    fake_results.spec(row)
    own = Projector(fake_results.root)
    own.sync(sweep_id)
    (child,) = (run for run in runs_of(fake_results.root) if run.data.tags["nmt.kind"] == "run")
    mlflow_client(fake_results.root).delete_run(child.info.run_id)
    fake_results.finished(row)
    own.sync(sweep_id, live=False)
    (new,) = (run for run in runs_of(fake_results.root) if run.data.tags["nmt.kind"] == "run")
    assert new.info.run_id != child.info.run_id and new.info.status == "FINISHED"
    mlflow_client(fake_results.root).delete_experiment(new.info.experiment_id)
    found = MlflowStore(fake_results.root).find({"nmt.kind": "run"})
    assert new.info.run_id in [run.info.run_id for run in found], "the experiment is restored with its runs"


def test_a_run_that_fails_in_the_middle_leaves_nothing_and_is_written_whole_later(fake_results, monkeypatch) -> None:
    fake_results.finished(row := fake_results.row("row"), steps=2)
    sweep, own = fake_results.sweep([row]), Projector(fake_results.root)

    with monkeypatch.context() as patch:
        patch.setattr(projector, "write_model", Mock(side_effect=OSError("no space left")))
        with pytest.raises(OSError, match="no space left"):
            own.sync(sweep, live=False)
    assert [run.info.run_name for run in runs_of(fake_results.root, sweep)] == ["fake sweep"]
    own.sync(sweep, live=False)
    assert sorted(run.info.run_name for run in runs_of(fake_results.root, sweep)) == ["fake sweep", "row s1"]
