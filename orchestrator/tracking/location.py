"""MLflow's database file, before MLflow opens it: one line where it cannot be used, and addresses of artifacts that moved with it.

MLflow keeps absolute addresses of artifacts. In a results folder that was moved or copied they would lead to the old place.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from urllib.parse import unquote, urlsplit

from orchestrator.errors import UserError

FOLDER = "mlflow-artifacts"
RESERVE = 32 * 10**6
"""Bytes of a file system that a sweep's tracking leaves free: results need them, and tracking can be brought up to date later."""

_UNUSABLE = ("file is not a database", "malformed", "readonly database", "unable to open database file")


def artifacts_of(results: Path) -> str:
    """Address of the folder of a local store's artifacts."""
    return (results / FOLDER).resolve().as_uri()


def settle(database: Path, results: Path, experiment: str) -> None:
    """Makes the addresses those of `results`, where the database is its own. UserError where the file is none that MLflow can write."""
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=5)) as connection, connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone() is None:
                return  # new: MLflow makes it
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {int(version)}")  # an error where it cannot be written
            if database.resolve().parent == results.resolve():
                _move(connection, experiment, artifacts_of(results))
    except sqlite3.DatabaseError as error:
        raise explained(error, database) or error from error


def explained(error: BaseException, database: Path) -> UserError | None:
    """What the store's error says of the file, if it is the file's fault; else None (a full disk passes)."""
    found = next((words for words in _UNUSABLE if words in str(error)), None)
    if found is None:
        return None
    return UserError(
        f"{database}: {found}; expected a database of MLflow (sqlite) that this user can write: "
        "move it away, and `nmt-ablate reconcile` makes it anew from the ledger"
    )


def leave_room(folder: Path) -> None:
    """UserError where the file system of a local store is nearly full."""
    if folder.is_dir() and (free := shutil.disk_usage(folder).free) < RESERVE:
        raise UserError(f"{free / 10**6:.1f} MB are free there; the last {RESERVE / 10**6:g} MB are left to the results")


def put(artifacts: str, name: str, source: Path) -> None:
    """Copies a file into a local folder of artifacts, whole or not at all."""
    folder = Path(unquote(urlsplit(artifacts).path))
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{name}.partial"  # a killed writer's is overwritten by the next
    try:
        shutil.copyfile(source, partial)
        partial.replace(folder / name)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _move(connection: sqlite3.Connection, experiment: str, here: str) -> None:
    row = connection.execute("SELECT experiment_id, artifact_location FROM experiments WHERE name = ?", (experiment,)).fetchone()
    if row is None or row[1] == here or not str(row[1]).endswith(f"/{FOLDER}"):
        return
    known, there = row
    connection.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (here, known))
    connection.execute(
        "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
        (here, len(there) + 1, known, len(there) + 1, f"{there}/"),
    )
