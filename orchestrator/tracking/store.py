"""The MLflow side of tracking: one client, no global state, every write repeatable.

MLflow by itself has no idempotence (two `create_run` make two runs, a repeated metric is a second point, parameters cannot be changed,
infinities become 1.8e308), so a run here is found by its tags, and only what it lacks is written.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from orchestrator.errors import UserError
from orchestrator.tracking.environment import configure, default_uri, is_server, redact, sqlite_path, with_driver
from orchestrator.tracking.history import Point, flatten
from orchestrator.tracking.ledger import file_lock, ledger_id
from orchestrator.tracking.location import artifacts_of, put, settle

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "nmt-ablate"
KIND = {"mlflow.experimentKind": "custom_model_development", "mlflow.experiment.primaryMetric.name": "bleu"}
"""Makes the UI open on runs and their curves instead of on GenAI traces."""

VIEW_NAME, BEST_NAME = "nmt", "nmt-best"
_COLUMNS = ["metrics.`bleu`", "metrics.`chrf`", "metrics.`tokens_per_second`", "metrics.`params`", "tags.`nmt.status`", "tags.`nmt.label`"]
_BEST = {"orderByKey": "metrics.`bleu`", "orderByAsc": False, "searchFilter": "tags.`nmt.kind` = 'run'"}
VIEW = {
    f"mlflow.sharedViewState.{VIEW_NAME}": json.dumps({"selectedColumns": _COLUMNS}),
    f"mlflow.sharedViewState.{BEST_NAME}": json.dumps({"selectedColumns": _COLUMNS} | _BEST),
}
"""Views of the UI that an address names (`viewStateShareKey`): the few columns that compare rows, of a hundred that there are. With another
order than by time the UI shows rows without their sweeps, which is what its charts need: they show what the list shows."""

MAX_METRICS, MAX_PARAMS, MAX_KEY, MAX_PARAM, MAX_TAG = 1000, 100, 250, 6000, 8000
PAGE = 250
"""Runs in one answer of a search: a few MB at most."""

_FORBIDDEN = re.compile(r"[^\w\-. :/]", re.ASCII)


@dataclass
class Child:
    """What the store holds of one run. `last`: step of the last point of each metric; `place`: where its artifacts go."""

    run_id: str
    status: str
    place: str
    tags: dict[str, str]
    params: set[str] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)


class Store:
    """Runs of the experiment `nmt-ablate` at `uri` (default: sqlite among the results). The first call opens it, which takes seconds."""

    def __init__(self, results: Path, uri: str | None = None) -> None:
        self.results, self.uri = results, uri or default_uri(results)
        self.server, self.own = is_server(self.uri), self.uri == default_uri(results)
        self._client: MlflowClient | None = None
        self._experiment = ""

    @property
    def client(self) -> MlflowClient:
        if self._client is None:
            mlflow = _mlflow()
            self._prepare_sqlite()
            # a fresh database opened by several at once fails in three of four; a server has made its own
            with contextlib.nullcontext() if self.server else file_lock(self.results / ".mlflow-init.lock"):
                uri = with_driver(self.uri)
                with _quick_creation(sqlite_path(uri)):
                    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
                self._experiment = self._find_experiment(client)
            self._client = client
        return self._client

    @property
    def experiment(self) -> str:
        """Its id."""
        assert self.client
        return self._experiment

    def forget(self) -> None:
        """The next call opens the store anew."""
        self._client = None

    def lock(self, name: str) -> Path:
        """To be held while runs of `name` are written: writers of a server wait for nobody but writers of the same sweep and ledger."""
        return self.results / ".tracking" / f"{name}.server.lock" if self.server else self.results / ".mlflow.lock"

    def search(self, sweep_id: str, run: str | None = None) -> list[Run]:
        """Runs of a sweep of this ledger, parent included, oldest first, of doubles the most complete; `run`: one row's."""
        return self.find({"nmt.sweep": sweep_id} | ({"nmt.run": run} if run else {}))

    def find(self, tags: Mapping[str, str]) -> list[Run]:
        """Runs of this ledger with these tags. The ledger's own store may have runs older than the tag `nmt.ledger`."""
        wanted = tags if self.own else {**tags, "nmt.ledger": ledger_id(self.results)}
        query = " and ".join(f"tags.`{name}` = '{_plain(value)}'" for name, value in wanted.items())
        runs: list[Run] = []
        client, token = self.client, None
        while True:
            order = ["attributes.start_time ASC"]
            page = client.search_runs([self._experiment], query, max_results=PAGE, order_by=order, page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return sorted(runs, key=lambda run: (run.info.start_time, "nmt.projected" not in run.data.tags, run.info.run_id))

    def create(self, name: str, tags: Mapping[str, str], start: int) -> Child:
        """A new run; its tags are in the store as soon as it is, so that it is found after a crash."""
        about = dict(tags) | {"nmt.ledger": ledger_id(self.results)} | ({} if self.own else {"mlflow.user": _user()})
        clean = {key: text(value, MAX_TAG) for key, value in about.items()}
        client = self.client
        run = client.create_run(self._experiment, start_time=start, tags=clean, run_name=text(name, MAX_KEY))
        return Child(run.info.run_id, run.info.status, run.info.artifact_uri, dict(run.data.tags))

    def adopt(self, run: Run) -> Child:
        """A run that is in the store already. What a search returns of a metric is its last point."""
        last = {point.key: int(point.step) for point in run.data._metric_objs}
        return Child(run.info.run_id, run.info.status, run.info.artifact_uri, dict(run.data.tags), set(run.data.params), last)

    def write(self, child: Child, *, points: Sequence[Point] = (), spec: Any = None, tags: Mapping[str, str] | None = None) -> int:
        """What the run lacks, in one request where it fits, tags in the last one -> points written.

        Points beyond the last of each metric; of the flattened spec what is set and has no value yet (MLflow refuses to change one).
        """
        entities = _mlflow().entities
        new = [point for point in points if point.step > child.last.get(metric_key(point.key), -1)]
        metrics = [entities.Metric(metric_key(p.key), p.value, p.time, p.step) for p in new]
        params: dict[str, str] = {}
        for name, value in flatten(spec) if spec else ():
            if value is not None and (key := metric_key(name)) and key not in child.params:
                params.setdefault(key, text(value, MAX_PARAM))
        clean = {key: text(value, MAX_TAG) for key, value in (tags or {}).items()}
        changed = {key: value for key, value in clean.items() if child.tags.get(key) != value}
        left, about = list(params.items()), [entities.RunTag(key, value) for key, value in changed.items()]
        while metrics or left or about:
            some, left = left[:MAX_PARAMS], left[MAX_PARAMS:]
            room = MAX_METRICS - len(some)
            batch, metrics = metrics[:room], metrics[room:]
            last = about if not metrics and not left and len(some) + len(batch) + len(about) <= MAX_METRICS else []
            self.client.log_batch(child.run_id, metrics=batch, params=[entities.Param(key, value) for key, value in some], tags=last)
            child.params.update(key for key, _ in some)
            child.last.update((metric.key, metric.step) for metric in batch)
            if last:
                child.tags.update(changed)
                about = []
        return len(new)

    def write_status(self, child: Child, status: str, end: int | None = None) -> None:
        """RUNNING, FINISHED, KILLED or FAILED. `end`: milliseconds."""
        if status == "RUNNING":
            if child.status != status:
                self.client.update_run(child.run_id, status=status)
        else:
            self.client.set_terminated(child.run_id, status=status, end_time=end)
        child.status = status

    def write_artifacts(self, child: Child, files: Mapping[str, Path]) -> None:
        """Copies files to the run under their names, in place of older ones."""
        if child.place.startswith("file://"):
            for name, path in files.items():
                put(child.place, name, path)
            return
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        repository = get_artifact_repository(child.place, tracking_uri=self.uri)
        with tempfile.TemporaryDirectory(prefix="nmt-artifacts-") as folder:
            for name, path in files.items():
                if path.name != name:
                    path = Path(shutil.copyfile(path, Path(folder) / name))
                repository.log_artifact(str(path))

    def delete(self, run_id: str) -> None:
        self.client.delete_run(run_id)

    def _prepare_sqlite(self) -> None:
        """Raises at once where MLflow would retry for 100 s: no directory, no permission, not a database."""
        self.results.mkdir(parents=True, exist_ok=True)
        if (path := sqlite_path(self.uri)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            settle(path, self.results, EXPERIMENT)

    def _find_experiment(self, client: MlflowClient) -> str:
        found = client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            location = None if self.server else artifacts_of(self.results)
            try:
                return str(client.create_experiment(EXPERIMENT, artifact_location=location, tags=KIND | VIEW))
            except _mlflow().exceptions.MlflowException:  # another writer was quicker
                if (found := client.get_experiment_by_name(EXPERIMENT)) is None:
                    raise
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
        for name, value in VIEW.items():
            if found.tags.get(name) != value:
                client.set_experiment_tag(found.experiment_id, name, value)
        if not self.server and str(found.artifact_location).startswith("mlflow-artifacts:"):
            raise UserError(
                f"{redact(self.uri)}: the artifacts of experiment {EXPERIMENT} lie behind its MLflow server: give the server's address"
            )
        return str(found.experiment_id)


def _mlflow() -> ModuleType:
    """MLflow, imported when a store is first opened and after its environment is set: it takes seconds."""
    configure()
    import mlflow

    return mlflow


def _user() -> str:
    """Who runs it, for the column of a shared server."""
    with contextlib.suppress(OSError, KeyError):
        return os.environ.get("MLFLOW_TRACKING_USERNAME") or getpass.getuser()
    return "unknown"


@contextlib.contextmanager
def _quick_creation(path: Path | None) -> Iterator[None]:
    """A new sqlite database is made by hundreds of small transactions: not one of them waits for the disk. What is there keeps its care."""
    if path is None or (path.exists() and path.stat().st_size):
        yield
        return
    from sqlalchemy import Engine, event

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


def metric_key(name: str) -> str:
    """A name as MLflow takes it: letters, digits and `_-. :/`, at most 250."""
    return _FORBIDDEN.sub("_", name)[:MAX_KEY]


def text(value: Any, limit: int) -> str:
    """A parameter or tag: redacted, cut at `limit` characters."""
    plain = redact("" if value is None else value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value))
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


def _plain(identifier: str) -> str:
    if not re.fullmatch(r"[\w\-.:/@+ ]{1,200}", identifier):
        raise ValueError(f"sweep id {identifier!r}: letters, digits and -._:/@+ only")
    return identifier
