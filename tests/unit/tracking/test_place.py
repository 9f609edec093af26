"""The local store's file: a folder that moved, a file that is no database, a disk that is full."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from orchestrator.errors import UserError
from orchestrator.tracking import location, ui
from orchestrator.tracking.environment import checked_uri, default_uri, sqlite_path
from orchestrator.tracking.sweeps import BackgroundProjector, reconcile
from tests.unit.tracking.reading import mlflow_client, runs_of


@pytest.mark.slow
def test_a_results_folder_that_moved_has_its_artifacts_with_it(fake_results: Any, tmp_path: Path) -> None:
    row, later = fake_results.row("baseline"), fake_results.row("dense")
    sweep_id = fake_results.sweep([row, later])
    fake_results.finished(row)
    reconcile(fake_results.root)
    old, new = fake_results.root.rename(tmp_path / "old"), tmp_path / "new % folder"
    old.rename(new)
    fake_results.root = new
    fake_results.finished(later)
    reconcile(new)
    assert not old.exists()
    runs = [run for run in runs_of(new, sweep_id) if run.data.tags["nmt.kind"] == "run"]
    assert len(runs) == 2
    for run in runs:
        assert run.info.artifact_uri == f"{new.as_uri()}/mlflow-artifacts/{run.info.run_id}/artifacts"
        names = {item.path for item in mlflow_client(new).list_artifacts(run.info.run_id)}
        assert "train.json" in names and not any(name.startswith(".") for name in names)


def test_the_address_of_a_file_is_escaped(fake_results: Any, tmp_path: Path) -> None:
    """SQLAlchemy, with which MLflow reads, must find the database where the sqlite client wrote it."""
    fake_results.typical()
    folder = fake_results.root.rename(tmp_path / "a?b %41")
    before = sorted(tmp_path.rglob("*"))
    reconcile(folder)
    uri = default_uri(folder)
    assert sqlite_path(uri) == folder / "mlflow.db" == Path(make_url(uri).database) and sqlite_path(uri).stat().st_size
    assert all(path.is_relative_to(folder) for path in set(tmp_path.rglob("*")) - set(before))
    assert default_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db", "addresses without such characters stay"
    assert checked_uri(f"sqlite:///{folder.parent}/a%3Fb %2541/x.db") == uri.replace("mlflow.db", "x.db")
    for bad, found in ((f"sqlite:///{tmp_path}/x.db?timeout=3", "found ?"), (f"sqlite:///{tmp_path}/none/x.db", "no such folder")):
        with pytest.raises(UserError, match=re.escape(found)):
            checked_uri(bad)


@pytest.mark.parametrize("kind", ["garbage", "readonly"])
def test_a_database_that_cannot_be_used_is_one_line(fake_results: Any, cli: Any, monkeypatch: Any, kind: str) -> None:
    fake_results.typical()
    path = fake_results.root / "mlflow.db"
    if kind == "garbage":
        path.write_bytes(os.urandom(8192))
    else:
        sqlite3.connect(path).execute("CREATE TABLE experiments (name)").connection.close()
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda name, **more: connect(f"file:{name}?mode=ro", uri=True, **more))
    monkeypatch.setattr(ui, "free_port", lambda port: pytest.fail("no server for this"))
    before = path.read_bytes()
    for command in ("reconcile", "ui"):
        code, _, err = cli(command, "--results", fake_results.root)
        assert code == 2 and err.count("\n") == 1 and "Traceback" not in err
        assert f"{path}: " in err and "expected a database of MLflow" in err and ("readonly" in err) == (kind == "readonly")
    assert path.read_bytes() == before
    said: list[str] = []
    tracking = BackgroundProjector(fake_results.root, "sweep-1", warn=said.append)
    tracking.start()
    assert tracking.stop(30) is False
    assert str(path) in said[0] and "the work continues" in said[0] and "UserError" not in said[0]


def test_tracking_leaves_the_last_space_to_the_results(fake_results: Any, monkeypatch: Any) -> None:
    sweep_id, _ = fake_results.typical()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(location.shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1_200_000))
    said: list[str] = []
    tracking = BackgroundProjector(fake_results.root, sweep_id, warn=said.append)
    tracking.start()
    assert tracking.stop(30) is False
    assert not (fake_results.root / "mlflow.db").exists()
    assert len(said) == 2 and "1.2 MB are free" in said[0] and "reconcile" in said[1]


def test_an_artifact_is_whole_or_absent(tmp_path: Path, monkeypatch: Any) -> None:
    source, place = tmp_path / "a.json", tmp_path / "run"
    source.write_text("old")
    location.copy_artifact(place.as_uri(), "train.json", source)

    def full(source: Path, target: Path) -> None:
        target.write_text("ha")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space"):
        location.copy_artifact(place.as_uri(), "train.json", source)
    assert [(path.name, path.read_text()) for path in place.iterdir()] == [("train.json", "old")]


def test_a_full_disk_is_not_the_files_fault(tmp_path: Path) -> None:
    assert location.database_error(sqlite3.OperationalError("database or disk is full"), tmp_path) is None
    assert isinstance(location.database_error(sqlite3.DatabaseError("database disk image is malformed"), tmp_path), UserError)


def test_addresses_follow_the_folder(tmp_path: Path) -> None:
    database, other = tmp_path / "mlflow.db", tmp_path / "other"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE experiments (experiment_id, name, artifact_location)")
        connection.execute("CREATE TABLE runs (experiment_id, artifact_uri)")
        connection.execute("INSERT INTO experiments VALUES (1, 'ours', 'file:///was/mlflow-artifacts'), (2, 'another', 'file:///x')")
        connection.execute("INSERT INTO runs VALUES (1, 'file:///was/mlflow-artifacts/a/artifacts'), (1, 's3://b/a'), (2, 'file:///x/a')")
    connection.close()
    here = location.artifacts_of(tmp_path)
    expected = [f"{here}/a/artifacts", "s3://b/a", "file:///x/a"]
    for folder, found in ((other, ["file:///was/mlflow-artifacts/a/artifacts", *expected[1:]]), (tmp_path, expected)):
        location.prepare_database(database, folder, "ours")  # of another's folder nothing is changed
        with sqlite3.connect(database) as connection:
            assert [uri for (uri,) in connection.execute("SELECT artifact_uri FROM runs")] == found
        connection.close()
