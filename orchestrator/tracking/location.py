"""Locations of tracking data: the id of a ledger, MLflow's database file before it is opened, and local artifacts.

MLflow stores absolute addresses of artifacts, which must be updated after a results folder was moved or copied.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import sqlite3
from pathlib import Path
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from orchestrator.errors import UserError
from orchestrator.files import atomic

FOLDER = "mlflow-artifacts"
MIN_FREE_BYTES = 32 * 10**6
"""Bytes that tracking leaves free for results; tracking can be updated later."""

_UNUSABLE = ("file is not a database", "malformed", "readonly database", "unable to open database file")


_LEDGER_ID = re.compile(r"[0-9a-f]{16}")


def ledger_id(results: Path) -> str:
    """16 hexadecimal digits that distinguish ledgers on a shared server.

    Created at the first call and stored in RESULTS/.tracking/ledger; a copy of the folder is the same ledger.
    """
    path = results / ".tracking" / "ledger"
    with FileLock(results / ".tracking" / "ledger.lock"):
        with contextlib.suppress(OSError):
            if _LEDGER_ID.fullmatch(stored := path.read_text(encoding="ascii", errors="replace").strip()):
                return stored
        new = secrets.token_hex(8)
        atomic.write_text(path, new + "\n")
        return new


def artifacts_of(results: Path) -> str:
    """Address of the folder of a local store's artifacts."""
    return (results / FOLDER).resolve().as_uri()


def prepare_database(database: Path, results: Path, experiment: str) -> None:
    """Updates the artifact addresses of a database in `results`. UserError if MLflow cannot write the file."""
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=5)) as connection, connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone() is None:
                return  # MLflow creates the tables
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {int(version)}")  # fails if the file cannot be written
            if database.resolve().parent == results.resolve():
                _relocate_artifacts(connection, experiment, artifacts_of(results))
    except sqlite3.DatabaseError as error:
        raise database_error(error, database) or error from error


def database_error(error: BaseException, database: Path) -> UserError | None:
    """A UserError if the file itself is the cause of a store's error, else None (as for a full disk, which is temporary)."""
    found = next((words for words in _UNUSABLE if words in str(error)), None)
    if found is None:
        return None
    return UserError(
        f"{database}: {found}; expected a database of MLflow (sqlite) that this user can write: "
        "move it away, and `nmt-ablate reconcile` makes it anew from the ledger"
    )


def check_disk_space(folder: Path) -> None:
    """UserError if the file system of a local store is nearly full."""
    if folder.is_dir() and (free := shutil.disk_usage(folder).free) < MIN_FREE_BYTES:
        raise UserError(f"{free / 10**6:.1f} MB are free there; the last {MIN_FREE_BYTES / 10**6:g} MB are left to the results")


def copy_artifact(artifacts: str, name: str, source: Path) -> None:
    """Copies a file into a local folder of artifacts, atomically."""
    folder = Path(unquote(urlsplit(artifacts).path))
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{name}.partial"  # one left by a killed writer is overwritten
    try:
        shutil.copyfile(source, partial)
        partial.replace(folder / name)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _relocate_artifacts(connection: sqlite3.Connection, experiment: str, new_location: str) -> None:
    row = connection.execute("SELECT experiment_id, artifact_location FROM experiments WHERE name = ?", (experiment,)).fetchone()
    if row is None or row[1] == new_location or not str(row[1]).endswith(f"/{FOLDER}"):
        return
    experiment_id, old_location = row
    connection.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (new_location, experiment_id))
    connection.execute(
        "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
        (new_location, len(old_location) + 1, experiment_id, len(old_location) + 1, f"{old_location}/"),
    )
