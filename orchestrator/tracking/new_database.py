"""Empty MLflow databases: MLflow makes one per version in `$XDG_CACHE_HOME/nmt-ablate/mlflow`, which takes seconds; results get copies."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from orchestrator.files import atomic
from orchestrator.paths import user_cache
from orchestrator.tracking.environment import configure, sqlite_uri
from orchestrator.tracking.sqlite_client import revision


def write_new_database(path: Path) -> None:
    """Writes an empty database of the installed MLflow. An unusable cache is no error."""
    folder = user_cache() / "mlflow"
    cached = folder / f"{version('mlflow')}.db"
    try:
        with FileLock(folder / "lock"):
            if revision(cached) is None:
                with tempfile.TemporaryDirectory(dir=folder) as made:
                    _make(Path(made) / cached.name).replace(cached)
            _copy(cached, path)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="nmt-mlflow-") as made:
            _copy(_make(Path(made) / cached.name), path)


def _make(path: Path) -> Path:
    configure()
    import mlflow

    with _without_fsync():
        mlflow.MlflowClient(tracking_uri=sqlite_uri(path), registry_uri=sqlite_uri(path))
    return path


def _copy(source: Path, path: Path) -> None:
    """Copies a database to `path`, whole or not at all. MLflow's experiment Default gets the place that MLflow gives it here."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(source.read_bytes())
        connection.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = 0", (str(Path("mlruns/0").resolve()),))
        connection.commit()
        atomic.write_bytes(path, connection.serialize())


@contextlib.contextmanager
def _without_fsync() -> Iterator[None]:
    """MLflow makes its tables in hundreds of small transactions."""
    from sqlalchemy import Engine, event

    def connected(connection: Any, record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", connected)
    try:
        yield
    finally:
        event.remove(Engine, "connect", connected)
