"""An MLflow store with idempotent writes.

MLflow's own writes are not: two `create_run` create two runs, a repeated metric is a second point, parameters cannot be changed, and
infinities become 1.8e308. Here a run is found by its tags, and only what it lacks is written.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from orchestrator.errors import UserError
from orchestrator.tracking import entities, views
from orchestrator.tracking.environment import configure, default_uri, is_server, redact, sqlite_path, with_driver
from orchestrator.tracking.history import Point, flatten
from orchestrator.tracking.location import artifacts_of, copy_artifact, ledger_id, prepare_database
from orchestrator.tracking.names import MAX_KEY, plain_id, text, valid_name
from orchestrator.tracking.new_database import write_new_database
from orchestrator.tracking.sqlite_client import REVISION, SqliteClient, revision

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "nmt-ablate"
KIND = {"mlflow.experimentKind": "custom_model_development", "mlflow.experiment.primaryMetric.name": "bleu"}
"""Tags that make the UI open with runs and curves instead of GenAI traces."""

MAX_METRICS, MAX_PARAMS, MAX_PARAM, MAX_TAG = 1000, 100, 6000, 8000
PAGE = 250
"""Runs per page of a search, a few MB at most."""


@dataclass
class StoredRun:
    """The state of one run in the store. `last`: step of the last point of each metric; `artifact_uri`: destination of its artifacts."""

    run_id: str
    status: str
    artifact_uri: str
    tags: dict[str, str]
    params: set[str] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)


class MlflowStore:
    """Runs of the experiment `nmt-ablate` at `uri` (default: sqlite in `results`). Opened at the first call."""

    def __init__(self, results: Path, uri: str | None = None) -> None:
        self.results, self.uri = results, uri or default_uri(results)
        self.server, self.own = is_server(self.uri), self.uri == default_uri(results)
        self._client: MlflowClient | SqliteClient | None = None
        self._experiment = ""
        self._tags: dict[str, str] = {}

    @property
    def client(self) -> MlflowClient | SqliteClient:
        if self._client is None:
            self._prepare_sqlite()
            # concurrent creation of a fresh database fails in three of four cases; a server has created its own
            with contextlib.nullcontext() if self.server else FileLock(self.results / ".mlflow-init.lock"):
                client = self._open()
                self._experiment = self._find_experiment(client)
            self._client = client
        return self._client

    def _open(self) -> MlflowClient | SqliteClient:
        if (path := sqlite_path(self.uri)) is not None:
            if not path.stat().st_size:  # `_prepare_sqlite` made the file
                write_new_database(path)
            if revision(path) == REVISION:
                return SqliteClient(path)
        uri = with_driver(self.uri)
        return _mlflow().MlflowClient(tracking_uri=uri, registry_uri=uri)

    @property
    def experiment(self) -> str:
        """Id of the experiment."""
        assert self.client
        return self._experiment

    @property
    def entities(self) -> ModuleType:
        """The module with the classes of what the client writes."""
        return entities if isinstance(self.client, SqliteClient) else _mlflow().entities

    def close(self) -> None:
        """Closes the store; the next call opens it again."""
        self._client = None

    def lock(self, name: str) -> Path:
        """The lock to hold while runs of `name` are written. On a server it excludes only writers of the same sweep and ledger."""
        return self.results / ".tracking" / f"{name}.server.lock" if self.server else self.results / ".mlflow.lock"

    def search(self, sweep_id: str, run: str | None = None) -> list[Run]:
        """Runs of a sweep including its parent, or of one of its rows: oldest first, and the most complete of duplicates first."""
        return self.find({"nmt.sweep": sweep_id} | ({"nmt.run": run} if run else {}))

    def find(self, tags: Mapping[str, str]) -> list[Run]:
        """Runs of this ledger with these tags. The ledger's own store may have runs from before the tag `nmt.ledger` existed."""
        filters = tags if self.own else {**tags, "nmt.ledger": ledger_id(self.results)}
        client = self.client
        if isinstance(client, SqliteClient):
            runs = client.runs_with_tags(self._experiment, filters)
        else:
            runs = self._pages(client, " and ".join(f"tags.`{name}` = '{plain_id(value)}'" for name, value in filters.items()))
        return sorted(runs, key=lambda run: (run.info.start_time, "nmt.projected" not in run.data.tags, run.info.run_id))

    def _pages(self, client: MlflowClient, query: str) -> list[Run]:
        runs: list[Run] = []
        token = None
        while True:
            order = ["attributes.start_time ASC"]
            page = client.search_runs([self._experiment], query, max_results=PAGE, order_by=order, page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return runs

    def create(self, name: str, tags: Mapping[str, str], start: int) -> StoredRun:
        """Creates a run together with its tags, so that it is found after a crash."""
        new_tags = dict(tags) | {"nmt.ledger": ledger_id(self.results), "mlflow.user": _user()}
        clean = {key: text(value, MAX_TAG) for key, value in new_tags.items()}
        client = self.client
        run = client.create_run(self._experiment, start_time=start, tags=clean, run_name=text(name, MAX_KEY))
        return StoredRun(run.info.run_id, run.info.status, run.info.artifact_uri, dict(run.data.tags))

    def adopt(self, run: Run) -> StoredRun:
        """The state of a run returned by a search, which includes the last point of each metric."""
        last = {point.key: int(point.step) for point in run.data._metric_objs}
        return StoredRun(run.info.run_id, run.info.status, run.info.artifact_uri, dict(run.data.tags), set(run.data.params), last)

    def write(self, child: StoredRun, *, points: Sequence[Point] = (), spec: Any = None, tags: Mapping[str, str] | None = None) -> int:
        """Writes what the run lacks, in as few requests as possible, with the tags in the last one. Returns the number of points written.

        The run lacks points after the last of each metric, and parameters without a value (MLflow refuses to change one).
        """
        made_of = self.entities
        new = [point for point in points if point.step > child.last.get(valid_name(point.key), -1)]
        metrics = [made_of.Metric(valid_name(p.key), p.value, p.time, p.step) for p in new]
        params: dict[str, str] = {}
        for name, value in flatten(spec) if spec else ():
            if value is not None and name and (key := valid_name(name)) not in child.params:
                params.setdefault(key, text(value, MAX_PARAM))
        clean = {key: text(value, MAX_TAG) for key, value in (tags or {}).items()}
        changed = {key: value for key, value in clean.items() if child.tags.get(key) != value}
        remaining, new_tags = list(params.items()), [made_of.RunTag(key, value) for key, value in changed.items()]
        while metrics or remaining or new_tags:
            param_batch, remaining = remaining[:MAX_PARAMS], remaining[MAX_PARAMS:]
            room = MAX_METRICS - len(param_batch)
            batch, metrics = metrics[:room], metrics[room:]
            last = new_tags if not metrics and not remaining and len(param_batch) + len(batch) + len(new_tags) <= MAX_METRICS else []
            self.client.log_batch(child.run_id, metrics=batch, params=[made_of.Param(key, value) for key, value in param_batch], tags=last)
            child.params.update(key for key, _ in param_batch)
            child.last.update((metric.key, metric.step) for metric in batch)
            if last:
                child.tags.update(changed)
                new_tags = []
        return len(new)

    def write_view(self, sweep_id: str, name: str, started: int) -> str:
        """Keeps the view of a sweep's runs -> its key. started: milliseconds since 1970."""
        filters = {"nmt.sweep": plain_id(sweep_id)} | ({} if self.own else {"nmt.ledger": ledger_id(self.results)})
        key = views.key_of(sweep_id, *filters.values())
        client = self.client
        for tag, value in views.of_sweep(key, name, filters, started).items():
            self._set_tag(client, self._experiment, tag, value)
        return key

    def _set_tag(self, client: MlflowClient | SqliteClient, experiment: str, name: str, value: str) -> None:
        if self._tags.get(name) != value:
            client.set_experiment_tag(experiment, name, value)
            self._tags[name] = value

    def write_status(self, child: StoredRun, status: str, end: int | None = None) -> None:
        """Sets RUNNING, FINISHED, KILLED or FAILED. `end`: milliseconds."""
        if status == "RUNNING":
            if child.status != status:
                self.client.update_run(child.run_id, status=status)
        else:
            self.client.set_terminated(child.run_id, status=status, end_time=end)
        child.status = status

    def write_artifacts(self, child: StoredRun, files: Mapping[str, Path]) -> None:
        """Copies files to the run under the given names, replacing older ones."""
        if child.artifact_uri.startswith("file://"):
            for name, path in files.items():
                copy_artifact(child.artifact_uri, name, path)
            return
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        repository = get_artifact_repository(child.artifact_uri, tracking_uri=self.uri)
        with tempfile.TemporaryDirectory(prefix="nmt-artifacts-") as folder:
            for name, path in files.items():
                if path.name != name:
                    path = Path(shutil.copyfile(path, Path(folder) / name))
                repository.log_artifact(str(path))

    def delete(self, run_id: str) -> None:
        self.client.delete_run(run_id)

    def _prepare_sqlite(self) -> None:
        """Raises immediately in cases where MLflow would retry for 100 s: no directory, no permission, not a database."""
        self.results.mkdir(parents=True, exist_ok=True)
        if (path := sqlite_path(self.uri)) is not None:
            prepare_database(path, self.results, EXPERIMENT)

    def _find_experiment(self, client: MlflowClient | SqliteClient) -> str:
        found = client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            location = None if self.server else artifacts_of(self.results)
            try:
                return str(client.create_experiment(EXPERIMENT, artifact_location=location, tags=KIND | views.shared()))
            except Exception:
                # another writer created it first
                if (found := client.get_experiment_by_name(EXPERIMENT)) is None:
                    raise
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
        wanted = {name: value for name, value in KIND.items() if name not in found.tags} | views.shared()
        self._tags = dict(found.tags)
        for name, value in wanted.items():
            self._set_tag(client, str(found.experiment_id), name, value)
        if not self.server and str(found.artifact_location).startswith("mlflow-artifacts:"):
            raise UserError(
                f"{redact(self.uri)}: the artifacts of experiment {EXPERIMENT} lie behind its MLflow server: give the server's address"
            )
        return str(found.experiment_id)


def _mlflow() -> ModuleType:
    """Imports MLflow, which takes seconds, after its environment is set."""
    configure()
    import mlflow

    return mlflow


def _user() -> str:
    """The user name shown on a shared server."""
    with contextlib.suppress(OSError, KeyError):
        return os.environ.get("MLFLOW_TRACKING_USERNAME") or getpass.getuser()
    return "unknown"
