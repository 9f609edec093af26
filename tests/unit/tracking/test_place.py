"""The local store's file: a folder that moved, a file that is no database."""

import os
import re
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import make_url

from orchestrator.errors import UserError
from orchestrator.sweeps.driver import Sweep
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.tracking import ui
from orchestrator.tracking.environment import checked_uri, default_uri, sqlite_path
from orchestrator.tracking.store import MlflowStore
from orchestrator.tracking.sweeps import BackgroundProjector, reconcile
from tests.unit.tracking.reading import runs_of


def test_a_database_of_another_folder_is_refused(fake_results, tmp_path) -> None:
    """MLflow would write the artifacts of a moved folder where it was."""
    fake_results.typical()
    reconcile(fake_results.root)
    moved = fake_results.root.rename(tmp_path / "new % folder")
    with pytest.raises(UserError, match="was made in another folder"):
        reconcile(moved)
    (moved / "mlflow.db").unlink()
    assert reconcile(moved)[1] == []
    uris = {run.info.artifact_uri.rpartition("/mlflow-artifacts")[0] for run in runs_of(moved)}
    assert uris == {moved.as_uri()} and not fake_results.root.exists()


def test_the_address_of_a_file_is_escaped(fake_results, tmp_path) -> None:
    """SQLAlchemy must find the database where its results are."""
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
def test_a_database_that_cannot_be_used_is_one_line(fake_results, cli, monkeypatch, kind: str) -> None:
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
        assert (
            f"{path}: " in err
            and "expected a database of MLflow" in err
            and ("readonly" in err) == ("--tracking-uri" in err) == (kind == "readonly")
        )
    assert path.read_bytes() == before
    said: list[str] = []
    tracking = BackgroundProjector(fake_results.root, "sweep-1", warn=said.append)
    tracking.start()
    tracking.stop(30)
    assert str(path) in said[0] and "the work continues" in said[0] and "UserError" not in said[0]


def test_a_database_that_was_removed_is_made_anew(fake_results, cli, monkeypatch) -> None:
    assert MlflowStore(fake_results.root).experiment, "as a call leaves it that was killed early"
    Sweep([], ExecutionOptions(name="a/b", results=fake_results.root), None).run()
    assert [run.info.run_name for run in runs_of(fake_results.root, "a-b")] == ["a/b"], "a sweep with nothing to do shows what it has"
    (fake_results.root / "mlflow.db").unlink()
    monkeypatch.setattr(ui, "reconcile", lambda *_, mirrors: pytest.fail(f"from {mirrors}"))
    with pytest.raises(pytest.fail.Exception, match="docs/results/ledger"):
        cli("ui", "--results", fake_results.root)
