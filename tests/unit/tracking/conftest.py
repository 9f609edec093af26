"""MLflow makes the tables of a database in seconds: these tests copy those of one file."""

import shutil
from pathlib import Path

import pytest

from orchestrator.tracking import store


@pytest.fixture(scope="session")
def blank(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("blank") / "mlflow.db"
    store.prepare_database(path)
    return path


@pytest.fixture(autouse=True)
def quick_database(blank: Path, monkeypatch) -> None:
    prepare = store.prepare_database

    def copied(path: Path) -> None:
        if not path.exists() and path.parent.is_dir():
            shutil.copy(blank, path)
        prepare(path)

    monkeypatch.setattr(store, "prepare_database", copied)
