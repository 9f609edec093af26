"""The MLflow side of tracking: one client, no global state, every write repeatable.

MLflow by itself has no idempotence (two `create_run` make two runs, a repeated metric is a second point, parameters cannot be changed,
infinities become 1.8e308), so a run here is found by its tags, and only what it lacks is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.tracking_history import Point, flatten

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_T = TypeVar("_T")

EXPERIMENT = "nmt-ablate"
KIND = {"mlflow.experimentKind": "custom_model_development", "mlflow.experiment.primaryMetric.name": "bleu"}
"""Makes the UI open on runs and their curves instead of on GenAI traces."""

ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # the default, 7 with backoff, blocks 245 s where the server is down
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",  # we are the background thread; a second queue would lose what it holds at a kill
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}

MAX_METRICS, MAX_PARAMS, MAX_KEY, MAX_PARAM, MAX_TAG = 1000, 100, 250, 6000, 8000

_FORBIDDEN = re.compile(r"[^\w\-. :/]", re.ASCII)
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_SECRET = re.compile(r"(?i)((?:password|passwd|token|secret|api_?key|access_?key)=)[^&;\s]+")


@dataclass
class Child:
    """What the store holds of one run. `last`: step of the last point of each metric."""

    run_id: str
    status: str
    tags: dict[str, str]
    params: set[str] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)


class Store:
    """Runs of the experiment `nmt-ablate` at `uri` (default: sqlite among the results). The first call opens it, which takes seconds."""

    def __init__(self, results: Path, uri: str | None = None) -> None:
        self.results, self.uri = results, uri or default_uri(results)
        self._client: MlflowClient | None = None
        self._experiment = ""

    @property
    def client(self) -> MlflowClient:
        if self._client is None:
            configure()
            from mlflow import MlflowClient

            self._prepare_sqlite()
            with file_lock(self.results / ".mlflow-init.lock"):  # a fresh sqlite opened by several at once fails in three of four
                with _quick_creation(sqlite_path(self.uri)):
                    client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
                self._experiment = self._find_experiment(client)
            self._client = client
        return self._client

    def forget(self) -> None:
        """The next call opens the store anew."""
        self._client = None

    def search(self, sweep_id: str) -> list[Run]:
        """Runs of a sweep, parent included, oldest first."""
        query, runs, token = f"tags.`nmt.sweep` = '{_plain(sweep_id)}'", [], None
        client = self.client
        while True:
            page = client.search_runs([self._experiment], query, max_results=1000, order_by=["attributes.start_time ASC"], page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return runs

    def create(self, name: str, tags: Mapping[str, str], start: int) -> Child:
        """A new run; its tags are in the store as soon as it is, so that it is found after a crash."""
        clean = {key: text(value, MAX_TAG) for key, value in tags.items()}
        client = self.client
        run = client.create_run(self._experiment, start_time=start, tags=clean, run_name=text(name, MAX_KEY))
        return Child(run.info.run_id, run.info.status, dict(run.data.tags))

    def adopt(self, run: Run) -> Child:
        """A run that is in the store already, with the last step of each of its metrics."""
        run_id = run.info.run_id
        last = {key: max(point.step for point in self.client.get_metric_history(run_id, key)) for key in run.data.metrics}
        return Child(run_id, run.info.status, dict(run.data.tags), set(run.data.params), last)

    def write_points(self, child: Child, points: Sequence[Point]) -> int:
        """Logs the points beyond the last of each metric; returns how many."""
        from mlflow.entities import Metric

        new = [point for point in points if point.step > child.last.get(metric_key(point.key), -1)]
        for chunk in _chunks(new, MAX_METRICS):
            self.client.log_batch(child.run_id, metrics=[Metric(metric_key(p.key), p.value, p.time, p.step) for p in chunk])
            for point in chunk:
                child.last[metric_key(point.key)] = point.step
        return len(new)

    def write_params(self, child: Child, spec: Any) -> None:
        """Logs the flattened spec; what has a value keeps it (MLflow refuses to change one)."""
        from mlflow.entities import Param

        new: dict[str, str] = {}
        for name, value in flatten(spec):
            if (key := metric_key(name)) and key not in child.params:
                new.setdefault(key, text(value, MAX_PARAM))
        for chunk in _chunks(list(new.items()), MAX_PARAMS):
            self.client.log_batch(child.run_id, params=[Param(key, value) for key, value in chunk])
            child.params.update(key for key, _ in chunk)

    def write_tags(self, child: Child, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        clean = {key: text(value, MAX_TAG) for key, value in tags.items()}
        new = {key: value for key, value in clean.items() if child.tags.get(key) != value}
        for chunk in _chunks(list(new.items()), MAX_PARAMS):
            self.client.log_batch(child.run_id, tags=[RunTag(key, value) for key, value in chunk])
            child.tags.update(chunk)

    def write_status(self, child: Child, status: str, end: int | None = None) -> None:
        """RUNNING, FINISHED, KILLED or FAILED. `end`: milliseconds."""
        if status == "RUNNING":
            if child.status != status:
                self.client.update_run(child.run_id, status=status)
        else:
            self.client.set_terminated(child.run_id, status=status, end_time=end)
        child.status = status

    def write_artifact(self, child: Child, name: str, path: Path) -> None:
        """Copies a file to the run as `name`, in place of an older one."""
        if path.name == name:
            self.client.log_artifact(child.run_id, str(path))
        else:
            self.client.log_text(child.run_id, path.read_text(encoding="utf-8"), name)

    def delete(self, run_id: str) -> None:
        self.client.delete_run(run_id)

    def _prepare_sqlite(self) -> None:
        """Raises at once where MLflow would retry for 100 s: no directory, no permission, not a database."""
        self.results.mkdir(parents=True, exist_ok=True)
        if (path := sqlite_path(self.uri)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(path, timeout=5)) as database:
                database.execute("PRAGMA schema_version").fetchone()

    def _find_experiment(self, client: MlflowClient) -> str:
        found = client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            location = (self.results / "mlflow-artifacts").resolve().as_uri() if sqlite_path(self.uri) is not None else None
            return str(client.create_experiment(EXPERIMENT, artifact_location=location, tags=KIND))
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)


def configure() -> None:
    """Environment of MLflow, for this process and its children. What the user has set stays. Call it before `import mlflow`."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name, level in (("alembic", logging.WARNING), ("urllib3.connectionpool", logging.ERROR)):
        logging.getLogger(name).setLevel(level)


def default_uri(results: Path) -> str:
    return f"sqlite:///{(results / 'mlflow.db').resolve()}"


def sqlite_path(uri: str) -> Path | None:
    """The database file of a sqlite URI; None for any other."""
    return Path(uri.partition(":///")[2]) if uri.startswith("sqlite:///") else None


@contextlib.contextmanager
def _quick_creation(path: Path | None) -> Iterator[None]:
    """A new sqlite database is made by hundreds of small transactions: not one of them waits for the disk. What is there keeps its care."""
    if path is None or (path.exists() and path.stat().st_size):
        yield
        return
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    opened: list[sqlite3.Connection] = []

    def connected(connection: Any, record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")
            opened.append(connection)

    event.listen(Engine, "connect", connected)
    try:
        yield
    finally:
        event.remove(Engine, "connect", connected)
        for connection in opened:
            with contextlib.suppress(sqlite3.Error):  # the pool closed it
                connection.execute("PRAGMA synchronous=FULL")


def redact(value: str) -> str:
    """Without the credentials of URIs and of `password=...` options."""
    return _SECRET.sub(r"\1***", _USERINFO.sub("***@", value))


def metric_key(name: str) -> str:
    """A name as MLflow takes it: letters, digits and `_-. :/`, at most 250."""
    return _FORBIDDEN.sub("_", name)[:MAX_KEY]


def text(value: Any, limit: int) -> str:
    """A parameter or tag: redacted, cut at `limit` characters."""
    plain = redact("" if value is None else value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value))
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Holds an flock on `path`; waits for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _plain(identifier: str) -> str:
    if not re.fullmatch(r"[\w\-.:/@+ ]{1,200}", identifier):
        raise ValueError(f"sweep id {identifier!r}: letters, digits and -._:/@+ only")
    return identifier


def _chunks(items: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    return (items[i : i + size] for i in range(0, len(items), size))
