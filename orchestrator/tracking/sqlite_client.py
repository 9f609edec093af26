"""The part of `MlflowClient` that tracking uses, on MLflow's sqlite file: importing MLflow and SQLAlchemy takes longer than a short run.

Runs, their parameters, metrics and tags are written as MLflow writes them. Only databases with the tables of `REVISION` are opened so,
and all others by MLflow itself.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.tracking.entities import DatasetInput, Experiment, LoggedModelOutput, Metric, Param, Run, RunData, RunInfo, RunTag

REVISION = "dc11669786a5"
"""The revision of MLflow's tables that this module knows: that of MLflow 3.17."""

FIRST = "bleu"
PENDING, STATUS = 1, {"READY": 2, "FAILED": 3}

BUSY_SECONDS = 20.0
"""Seconds to wait for another writer, as MLflow does."""


def revision(database: Path) -> str | None:
    """The revision of MLflow's tables in a file; None if it has none or cannot be read."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return str(rows[0][0]) if len(rows) == 1 else None
    return None


class SqliteClient:
    """Methods have the names and arguments of `MlflowClient`. Each is one transaction and raises `sqlite3.Error`.

    The file is opened anew by each call, so that one that was deleted is noticed. LookupError for a run or experiment that was deleted.
    """

    def __init__(self, database: Path) -> None:
        self.database = database.resolve()

    def get_experiment_by_name(self, name: str) -> Experiment | None:
        with self._transaction() as connection:
            columns = "experiment_id, artifact_location, lifecycle_stage"
            row = connection.execute(f"SELECT {columns} FROM experiments WHERE name = ? AND workspace = 'default'", (name,)).fetchone()
            if row is None:
                return None
            tags = connection.execute("SELECT key, value FROM experiment_tags WHERE experiment_id = ?", row[:1])
            return Experiment(str(row[0]), row[1], row[2], dict(tags))

    def create_experiment(self, name: str, artifact_location: str | None, tags: Mapping[str, str]) -> str:
        now = _now()
        with self._transaction() as connection:
            columns = "name, artifact_location, lifecycle_stage, creation_time, last_update_time"
            values = (name, artifact_location, now, now)
            cursor = connection.execute(f"INSERT INTO experiments ({columns}) VALUES (?, ?, 'active', ?, ?)", values)
            rows = [(key, value, cursor.lastrowid) for key, value in tags.items()]
            connection.executemany("INSERT INTO experiment_tags (key, value, experiment_id) VALUES (?, ?, ?)", rows)
            return str(cursor.lastrowid)

    def restore_experiment(self, experiment_id: str) -> None:
        with self._transaction() as connection:
            changes = "lifecycle_stage = 'active', last_update_time = ?"
            connection.execute(f"UPDATE experiments SET {changes} WHERE experiment_id = ?", (_now(), int(experiment_id)))
            changes = "lifecycle_stage = 'active', deleted_time = NULL"
            connection.execute(f"UPDATE runs SET {changes} WHERE experiment_id = ?", (int(experiment_id),))

    def set_experiment_tag(self, experiment_id: str, key: str, value: str) -> None:
        with self._transaction() as connection:
            values = (key, value, int(experiment_id))
            connection.execute("INSERT OR REPLACE INTO experiment_tags (key, value, experiment_id) VALUES (?, ?, ?)", values)

    def runs_with_tags(self, experiment_id: str, tags: Mapping[str, str]) -> list[Run]:
        """The active runs of an experiment with these tags, with their tags, parameters and the last point of each metric."""
        query = "FROM runs WHERE experiment_id = ? AND lifecycle_stage = 'active'"
        query += " AND run_uuid IN (SELECT run_uuid FROM tags WHERE key = ? AND value = ?)" * len(tags)
        values = (int(experiment_id), *(part for item in tags.items() for part in item))
        with self._transaction() as connection:
            columns = "run_uuid, name, status, start_time, end_time, artifact_uri"
            runs = {row[0]: Run(RunInfo(*row), RunData()) for row in connection.execute(f"SELECT {columns} {query}", values)}
            chosen = f"WHERE run_uuid IN (SELECT run_uuid {query})"
            for run_id, key, value in connection.execute(f"SELECT run_uuid, key, value FROM tags {chosen}", values):
                runs[run_id].data.tags[key] = value
            for run_id, key, value in connection.execute(f"SELECT run_uuid, key, value FROM params {chosen}", values):
                runs[run_id].data.params[key] = value
            for run_id, *point in connection.execute(f"SELECT run_uuid, key, value, timestamp, step FROM latest_metrics {chosen}", values):
                runs[run_id].data._metric_objs.append(Metric(*point))
        return list(runs.values())

    def create_run(self, experiment_id: str, start_time: int, tags: Mapping[str, str], run_name: str) -> Run:
        run_id, tags = uuid.uuid4().hex, {**tags, "mlflow.runName": run_name}
        with self._transaction() as connection:
            query = "SELECT artifact_location FROM experiments WHERE experiment_id = ? AND lifecycle_stage = 'active'"
            row = connection.execute(query, (int(experiment_id),)).fetchone()
            if row is None:
                raise LookupError(f"the experiment {experiment_id} was deleted")
            artifact_uri = f"{row[0].rstrip('/')}/{run_id}/artifacts"
            values = {
                "run_uuid": run_id,
                "name": run_name,
                "source_type": "UNKNOWN",
                "source_name": "",
                "entry_point_name": "",
                "user_id": tags.get("mlflow.user", "unknown"),
                "status": "RUNNING",
                "start_time": start_time,
                "source_version": "",
                "lifecycle_stage": "active",
                "artifact_uri": artifact_uri,
                "experiment_id": int(experiment_id),
            }
            connection.execute(f"INSERT INTO runs ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values()))
            _write_tags(connection, run_id, tags)
        return Run(RunInfo(run_id, run_name, "RUNNING", start_time, None, artifact_uri), RunData(tags))

    def log_batch(self, run_id: str, metrics: Sequence[Metric], params: Sequence[Param], tags: Sequence[RunTag]) -> None:
        with self._transaction(run_id) as connection:
            rows = [(param.key, param.value, run_id) for param in params]
            connection.executemany("INSERT OR IGNORE INTO params (key, value, run_uuid) VALUES (?, ?, ?)", rows)
            points = [(*metric[:4], run_id) for metric in metrics]
            connection.executemany(
                "INSERT OR IGNORE INTO metrics (key, value, timestamp, step, run_uuid, is_nan) VALUES (?, ?, ?, ?, ?, 0)", points
            )
            connection.executemany(
                "INSERT INTO latest_metrics (key, value, timestamp, step, run_uuid, is_nan) VALUES (?, ?, ?, ?, ?, 0) "
                "ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp, step = excluded.step "
                "WHERE (excluded.step, excluded.timestamp, excluded.value) > (step, timestamp, value)",
                points,
            )
            if any(metric.key == FIRST for metric in metrics):  # the UI's comparison opens with the first metric of a run
                first = "UPDATE latest_metrics SET rowid = (SELECT min(rowid) - 1 FROM latest_metrics) WHERE key = ? AND run_uuid = ?"
                connection.execute(first, (FIRST, run_id))
            of_models = [(metric.model_id, *metric[:4], run_id, run_id) for metric in metrics if metric.model_id is not None]
            columns = "model_id, metric_name, metric_value, metric_timestamp_ms, metric_step, run_id, experiment_id"
            connection.executemany(
                f"INSERT OR IGNORE INTO logged_model_metrics ({columns}) "
                "VALUES (?, ?, ?, ?, ?, ?, (SELECT experiment_id FROM runs WHERE run_uuid = ?))",
                of_models,
            )
            _write_tags(connection, run_id, dict(tags))

    def log_inputs(self, run_id: str, datasets: Sequence[DatasetInput]) -> None:
        with self._transaction(run_id) as connection:
            (experiment,) = connection.execute("SELECT experiment_id FROM runs WHERE run_uuid = ?", (run_id,)).fetchone()
            for dataset, tags in datasets:
                columns = "name, digest, dataset_source_type, dataset_source, dataset_schema, dataset_profile, experiment_id, dataset_uuid"
                values = (*dataset, experiment, uuid.uuid4().hex)
                connection.execute(f"INSERT OR IGNORE INTO datasets ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
                query = "SELECT dataset_uuid FROM datasets WHERE experiment_id = ? AND name = ? AND digest = ?"
                (source,) = connection.execute(query, (experiment, dataset.name, dataset.digest)).fetchone()
                if input_id := _link(connection, ("DATASET", source, "RUN", run_id)):
                    rows = [(input_id, *tag) for tag in tags]
                    connection.executemany("INSERT INTO input_tags (input_uuid, name, value) VALUES (?, ?, ?)", rows)

    def models_of(self, run_id: str) -> list[str]:
        """Ids of the models that a run made."""
        with self._transaction() as connection:
            query = "SELECT model_id FROM logged_models WHERE source_run_id = ? AND lifecycle_stage = 'active'"
            return [model for (model,) in connection.execute(query, (run_id,))]

    def create_logged_model(
        self, experiment_id: str, name: str, source_run_id: str, tags: Mapping[str, str], model_type: str
    ) -> LoggedModelOutput:
        model_id, now = f"m-{uuid.uuid4().hex}", _now()
        with self._transaction(source_run_id) as connection:
            query = "SELECT artifact_location FROM experiments WHERE experiment_id = ?"
            (location,) = connection.execute(query, (int(experiment_id),)).fetchone()
            values = {
                "model_id": model_id,
                "experiment_id": int(experiment_id),
                "name": name,
                "artifact_location": f"{location.rstrip('/')}/models/{model_id}/artifacts",
                "creation_timestamp_ms": now,
                "last_updated_timestamp_ms": now,
                "status": PENDING,
                "lifecycle_stage": "active",
                "model_type": model_type,
                "source_run_id": source_run_id,
            }
            columns = f"({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
            connection.execute(f"INSERT INTO logged_models {columns}", tuple(values.values()))
            rows = [(model_id, int(experiment_id), key, value) for key, value in tags.items()]
            connection.executemany("INSERT INTO logged_model_tags (model_id, experiment_id, tag_key, tag_value) VALUES (?, ?, ?, ?)", rows)
        return LoggedModelOutput(model_id, 0)

    def log_outputs(self, run_id: str, models: Sequence[LoggedModelOutput]) -> None:
        with self._transaction(run_id) as connection:
            for model in models:
                _link(connection, ("RUN_OUTPUT", run_id, "MODEL_OUTPUT", model.model_id), model.step)

    def finalize_logged_model(self, model_id: str, status: str) -> None:
        with self._transaction() as connection:
            changes = "status = ?, last_updated_timestamp_ms = ?"
            connection.execute(f"UPDATE logged_models SET {changes} WHERE model_id = ?", (STATUS[status], _now(), model_id))

    def update_run(self, run_id: str, status: str) -> None:
        with self._transaction(run_id) as connection:
            connection.execute("UPDATE runs SET status = ? WHERE run_uuid = ?", (status, run_id))

    def set_terminated(self, run_id: str, status: str, end_time: int | None = None) -> None:
        with self._transaction(run_id) as connection:
            end = _now() if end_time is None else end_time
            connection.execute("UPDATE runs SET status = ?, end_time = ? WHERE run_uuid = ?", (status, end, run_id))

    def delete_run(self, run_id: str) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE runs SET lifecycle_stage = 'deleted', deleted_time = ? WHERE run_uuid = ?", (_now(), run_id))

    @contextlib.contextmanager
    def _transaction(self, run_id: str | None = None) -> Iterator[sqlite3.Connection]:
        """run_id: of a run that must not have been deleted."""
        address = f"{self.database.as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(address, timeout=BUSY_SECONDS, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            query = "SELECT 1 FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'"
            if run_id is not None and connection.execute(query, (run_id,)).fetchone() is None:
                raise LookupError(f"the run {run_id} was deleted")
            yield connection
            connection.execute("COMMIT")


def _write_tags(connection: sqlite3.Connection, run_id: str, tags: Mapping[str, Any]) -> None:
    rows = [(key, value, run_id) for key, value in tags.items()]
    connection.executemany("INSERT OR REPLACE INTO tags (key, value, run_uuid) VALUES (?, ?, ?)", rows)


def _link(connection: sqlite3.Connection, ends: tuple[str, str, str, str], step: int = 0) -> str | None:
    """Records what a run read or made -> the record's id; None if it exists."""
    input_id, columns = uuid.uuid4().hex, "source_type, source_id, destination_type, destination_id, input_uuid, step"
    done = connection.execute(f"INSERT OR IGNORE INTO inputs ({columns}) VALUES (?, ?, ?, ?, ?, ?)", (*ends, input_id, step))
    return input_id if done.rowcount else None


def _now() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
