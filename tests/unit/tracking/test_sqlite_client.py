"""The local store is written without MLflow: with the same rows of the same tables, and into nothing that MLflow has since deleted."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.tracking import new_database, store
from orchestrator.tracking.history import Point
from orchestrator.tracking.lineage import write_lineage
from orchestrator.tracking.source import RunResult
from orchestrator.tracking.sqlite_client import REVISION, SqliteClient, revision
from orchestrator.tracking.store import MlflowStore, StoredRun
from orchestrator.tracking.sweeps import Projector, reconcile
from tests.unit.tracking.reading import mlflow_client, runs_of

MODULES = """
import sys
from pathlib import Path
from orchestrator.tracking.sweeps import reconcile
reconcile(Path(sys.argv[1]))
print(*(name for name in ("mlflow", "sqlalchemy", "alembic", "pandas") if name in sys.modules))
"""


def use(results: Path) -> MlflowStore:
    """Makes every kind of write of a store."""
    opened = MlflowStore(results)
    points = [Point("loss", 2.0, 5, 1), Point("loss", 1.5, 6, 2), Point("bleu", 3.0, 6, 2)]
    for name in ("first", "second", "third"):
        run = opened.create(name, {"nmt.sweep": "s", "nmt.kind": "run"}, 1000)
        opened.write(run, points=points, spec={"a": {"b": 1, "c": None}})
    dataset = {"name": "toy", "digest": "d1", "source_type": "corpus", "source": "{}", "profile": '{"train": 3}'}
    result = RunResult("done", 1000, 2000, 2, {}, {"weights_sha256": "ab"}, [], [], {}, dataset=dataset, best_step=2)
    for _ in range(2):
        write_lineage(opened, run, result, "model", [Point("bleu", 27.0, 2000, 0)], {"nmt.row": "third"})
    opened.write_status(run, "FINISHED", 2000)
    again = MlflowStore(results)
    first, second, _ = sorted(again.search("s"), key=lambda run: run.info.run_name)
    adopted = again.adopt(first)
    points = [Point("loss", 9.0, 5, 1), Point("loss", 1.0, 7, 3)]
    again.write(adopted, points=points, spec={"a": {"b": 1, "d": "x"}}, tags={"nmt.kind": "new"})
    again.write_status(adopted, "KILLED", 2000)
    again.write_status(adopted, "RUNNING")
    again.write(StoredRun(adopted.run_id, "RUNNING", "", {}), points=[Point("loss", 8.0, 4, 2)])  # older than the last one
    again.delete(second.info.run_id)
    again.client.set_experiment_tag(again.experiment, "nmt.product", "nmt-ablate")
    return again


def tables(results: Path) -> dict[str, list[Any]]:
    """Every row of every table, with runs by name and without times of the clock."""
    with contextlib.closing(sqlite3.connect(results / "mlflow.db")) as connection:
        text = "\n".join(connection.iterdump()).replace(results.as_uri(), "RESULTS")
        for run_id, name in connection.execute("SELECT run_uuid, name FROM runs"):
            text = text.replace(run_id, name)
        for number, model in enumerate(re.findall(r"m-[0-9a-f]{32}", text)):
            text = text.replace(model, f"m-{number}")
    text = re.sub(r"'[0-9a-f]{32}'", "UUID", text)
    text = re.sub(r"\b1[78]\d{11}\b", "NOW", text)
    text = re.sub(r"('nmt.ledger',)'[0-9a-f]{16}'", r"\1 LEDGER", text)
    return {"schema": re.findall(r"^CREATE .*", text, re.M), "rows": sorted(re.findall(r"^INSERT .*", text, re.M))}


def test_the_rows_are_those_that_mlflow_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert isinstance(use(ours).client, SqliteClient)
    monkeypatch.setattr(store, "REVISION", "another")
    assert not isinstance(use(theirs).client, SqliteClient)
    assert tables(ours) == tables(theirs)
    assert "'loss',1.0,7" in "".join(tables(ours)["rows"])


def test_a_deleted_experiment_is_restored_with_its_runs(tmp_path: Path) -> None:
    opened = MlflowStore(tmp_path)
    run = opened.create("run", {"nmt.sweep": "s"}, 1000)
    mlflow_client(tmp_path).delete_experiment(opened.experiment)
    with pytest.raises(LookupError, match="deleted"):
        opened.create("another", {}, 1000)
    assert [found.info.run_id for found in MlflowStore(tmp_path).search("s")] == [run.run_id]


def test_a_run_deleted_in_the_ui_is_made_anew(fake_results: Any) -> None:
    row = fake_results.row("baseline")
    sweep_id = fake_results.sweep([row])
    fake_results.spec(row)
    projector = Projector(fake_results.root)
    projector.sync(sweep_id)
    (child,) = (run for run in runs_of(fake_results.root) if run.data.tags["nmt.kind"] == "run")
    mlflow_client(fake_results.root).delete_run(child.info.run_id)
    fake_results.finished(row)
    with pytest.raises(LookupError, match=child.info.run_id):
        projector.sync(sweep_id)
    projector.finish_sweep(sweep_id)
    (new,) = (run for run in runs_of(fake_results.root) if run.data.tags["nmt.kind"] == "run")
    assert new.info.run_id != child.info.run_id and new.info.status == "FINISHED"


@pytest.mark.slow
def test_mlflow_is_imported_once_per_version_to_make_an_empty_database(fake_results: Any, tmp_path: Path) -> None:
    fake_results.typical()
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def imported() -> str:
        command = [sys.executable, "-c", MODULES, str(fake_results.root)]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()

    assert imported() == "mlflow sqlalchemy alembic pandas"
    (cached,) = (tmp_path / "cache").rglob("*.db")
    assert revision(cached) == REVISION, "MLflow's tables have changed: compare them, then set REVISION"
    (fake_results.root / "mlflow.db").unlink()
    assert imported() == ""
    (fake_results.root / "mlflow.db").unlink()
    cached.write_bytes(b"damaged")
    assert imported() != "" and revision(fake_results.root / "mlflow.db") == REVISION


def test_an_unusable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    new_database.write_new_database(tmp_path / "mlflow.db")
    assert revision(tmp_path / "mlflow.db") == REVISION
    assert reconcile(tmp_path) == ({}, [])
