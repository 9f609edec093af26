"""An MLflow store with idempotent writes.

MLflow's own writes are not: two `create_run` create two runs, a repeated metric is a second point, parameters cannot be changed, and
infinities become 1.8e308. Here a run is found by its tags, and only what it lacks is written.
"""

import contextlib
import getpass
import json
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.tracking.environment import configure, default_uri, is_server, redact, sqlite_path, sqlite_uri, with_driver
from orchestrator.tracking.history import MAX_KEY, Point, flatten, text, valid_name

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "nmt-ablate"
VIEW = "nmt"
COLUMNS = {
    "metrics.`bleu`": 120,
    "metrics.`chrf`": 120,
    "metrics.`valid/nll`": 110,
    "metrics.`tokens_per_second`": 150,
    "metrics.`params`": 100,
    "tags.`status`": 220,
    "tags.`row`": 160,
}
"""Columns of the list of runs, in order, after the run's name -> width in pixels."""
_STATE = {"selectedColumns": [*COLUMNS], "columnOrder": [*COLUMNS], "columnWidths": COLUMNS, "runsHiddenMode": "FIRST_20_RUNS"}
TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.experiment.primaryMetric.name": "bleu",
    f"mlflow.sharedViewState.{VIEW}": json.dumps({"name": "All sweeps", "createdAt": 0, "state": json.dumps(_STATE)}),
}
"""Of the experiment: the UI opens with runs and curves instead of GenAI traces, and applies the saved view of columns where its address has
`viewStateShareKey=nmt` (format of MLflow 3.17: `savedViewEnvelope.ts`, `ExperimentPageUIState.tsx`)."""

MAX_METRICS, MAX_PARAMS, MAX_PARAM, MAX_TAG = 800, 100, 6000, 8000
"""Metrics and parameters of one request, with which the tags come too; characters of a parameter and of a tag."""
PAGE = 250
"""Runs per page of a search, a few MB at most."""


class MlflowStore:
    """Runs of the experiment `nmt-ablate` at `uri` (default: sqlite in `results`). Opened at the first call."""

    def __init__(self, results: Path, uri: str | None = None) -> None:
        self.results, self.uri = results, uri or default_uri(results)
        self.server, self.own = is_server(self.uri), self.uri == default_uri(results)

    @cached_property
    def client(self) -> "MlflowClient":
        self.results.mkdir(parents=True, exist_ok=True)
        # concurrent creation of a fresh database fails in three of four cases; a server has created its own
        with contextlib.nullcontext() if self.server else FileLock(self.results / ".mlflow-init.lock"):
            if (path := sqlite_path(self.uri)) is not None:
                prepare_database(path)
            return _client(with_driver(self.uri))

    @cached_property
    def experiment(self) -> str:
        """Id of the experiment, which is created if necessary."""
        client = self.client
        found = client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            try:
                return str(client.create_experiment(EXPERIMENT, None if self.server else artifacts_of(self.results), tags=TAGS))
            except Exception:
                # another writer created it first
                if (found := client.get_experiment_by_name(EXPERIMENT)) is None:
                    raise
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
        if self.own and found.artifact_location != artifacts_of(self.results):
            raise UserError(
                f"{sqlite_path(self.uri)}: was made in another folder (its artifacts: {found.artifact_location}); "
                "expected one made here: remove the file, and `nmt-ablate reconcile` makes it anew from the ledger"
            )
        if not self.server and str(found.artifact_location).startswith("mlflow-artifacts:"):
            raise UserError(
                f"{redact(self.uri)}: the artifacts of experiment {EXPERIMENT} lie behind its MLflow server: give the server's address"
            )
        for name, value in TAGS.items():
            if found.tags.get(name) != value:
                client.set_experiment_tag(found.experiment_id, name, value)
        return str(found.experiment_id)

    def close(self) -> None:
        """Closes the store; the next call opens it again."""
        self.__dict__.pop("client", None)
        self.__dict__.pop("experiment", None)

    def lock(self, name: str) -> Path:
        """The lock to hold while runs of `name` are written. On a server it excludes only writers of the same sweep and ledger."""
        return self.results / ".tracking" / f"{name}.server.lock" if self.server else self.results / ".mlflow.lock"

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Context: a database file gets all writes in one commit, instead of about 30 commits per run with separate connections."""
        if sqlite_path(self.uri) is None:
            yield
            return
        store = self.client._tracking_client.store
        make, thread, problem = store.ManagedSessionMaker, threading.get_ident(), None
        with make(read_only=False) as session:

            @contextlib.contextmanager
            def same() -> Iterator[Any]:
                yield session
                session.flush()

            store.ManagedSessionMaker = lambda read_only=True: same() if threading.get_ident() == thread else make(read_only=read_only)
            session.commit, session.rollback = session.flush, None  # a part that fails ends it all
            try:
                yield
            except Exception as error:  # which MLflow would wrap
                problem = error
            finally:
                store.ManagedSessionMaker = make
                del session.commit, session.rollback
            if problem is not None:
                session.rollback()
        if problem is not None:
            raise problem

    def find(self, tags: Mapping[str, str]) -> "list[Run]":
        """Runs of this ledger with these tags: oldest first, and the most complete of duplicates first."""
        filters = {**tags, "nmt.ledger": ledger_id(self.results)}
        query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in filters.items())
        order = ["attributes.start_time ASC"]
        runs = _mlflow().utils.get_results_from_paginated_fn(
            lambda size, token: self.client.search_runs([self.experiment], query, max_results=size, order_by=order, page_token=token), PAGE
        )
        return sorted(runs, key=lambda run: (run.info.start_time, "nmt.projected" not in run.data.tags, run.info.run_id))

    def create(self, name: str, tags: Mapping[str, str], start: int) -> "Run":
        """Creates a run together with its tags, so that it is found after a crash."""
        user = "unknown"
        with contextlib.suppress(OSError, KeyError):
            user = os.environ.get("MLFLOW_TRACKING_USERNAME") or getpass.getuser()
        new_tags = dict(tags) | {"nmt.ledger": ledger_id(self.results), "mlflow.user": user}
        clean = {key: text(value, MAX_TAG) for key, value in new_tags.items()}
        return self.client.create_run(self.experiment, start_time=start, tags=clean, run_name=text(name, MAX_KEY))

    @property
    def entities(self) -> ModuleType:
        """The classes of what the client writes."""
        return _mlflow().entities

    def write(
        self, run: "Run", *, points: Sequence[Point] = (), spec: Any = None, tags: Mapping[str, str] | None = None, model: str | None = None
    ) -> None:
        """Writes what a run from `find` or `create` lacks, the tags last. model: id of its model, whose figures are the points of step 0.

        The run lacks points after the last of each metric, and parameters without a value (MLflow refuses to change one). If a last point
        has another value now, as of a run that went on, all metrics are written anew; on a server the point gets a second value.
        """
        entities, chunks = self.entities, _mlflow().utils.chunk_list
        new = [(valid_name(point.key), point) for point in points]
        values = {(key, p.step): p.value for key, p in new}
        if any(values.get((old.key, old.step), old.value) != old.value for old in run.data._metric_objs):
            self.forget_metrics(run)
        last = {old.key: (old.step, old.timestamp, old.value) for old in run.data._metric_objs}
        known = ((key, p, *last.get(key, (-1, 0, 0.0))) for key, p in new)
        later = [(key, p) for key, p, step, time, value in known if (p.step, p.time * (p.value != value)) > (step, time)]
        metrics = [entities.Metric(key, p.value, p.time, p.step, model if p.step == 0 else None) for key, p in later]
        params: dict[str, str] = {}
        for name, value in flatten(spec) if spec else ():
            if value is not None and name and (key := valid_name(name)) not in run.data.params:
                params.setdefault(key, text(value, MAX_PARAM))
        clean = {key: text(value, MAX_TAG) for key, value in (tags or {}).items()}
        changed = [entities.RunTag(key, value) for key, value in clean.items() if run.data.tags.get(key) != value]
        written = [entities.Param(key, value) for key, value in params.items()]
        *others, end = [*zip_longest(chunks(metrics, MAX_METRICS), chunks(written, MAX_PARAMS), fillvalue=[])] or [([], [])]
        for some, few in others:  # type: ignore[var-annotated]
            self.client.log_batch(run.info.run_id, metrics=some, params=few)
        if any((*end, changed)):
            self.client.log_batch(run.info.run_id, metrics=end[0], params=end[1], tags=changed)

    def forget_metrics(self, run: "Run") -> None:
        """Deletes a run's metrics from a database file; MLflow has no request for it.

        The next `write` writes them in its own order, of which the UI's comparison shows the first. Call it in a `transaction`.
        """
        if sqlite_path(self.uri) is None:
            return
        store, models = self.client._tracking_client.store, _mlflow().store.tracking.dbmodels.models
        with store.ManagedSessionMaker(read_only=False) as session:
            for table in (models.SqlLatestMetric, models.SqlMetric):
                session.query(table).filter_by(run_uuid=run.info.run_id).delete()
            session.query(models.SqlLoggedModelMetric).filter_by(run_id=run.info.run_id).delete()
        run.data._metric_objs.clear()

    def write_status(self, run: "Run", status: str, end: int | None = None) -> None:
        """Sets RUNNING, FINISHED, KILLED or FAILED. `end`: milliseconds."""
        if status != "RUNNING":
            self.client.set_terminated(run.info.run_id, status=status, end_time=end)
        elif run.info.status != status:
            self.client.update_run(run.info.run_id, status=status)

    def write_artifacts(self, run: "Run", files: Mapping[str, Path]) -> None:
        """Copies files to the run under the given names, replacing older ones."""
        place = urlsplit(run.info.artifact_uri)
        own = place.scheme == "file"  # MLflow would read the run and copy twice
        with contextlib.nullcontext(unquote(place.path)) if own else tempfile.TemporaryDirectory(prefix="nmt-artifacts-") as folder:
            for name, path in files.items():
                Path(folder).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, Path(folder) / name)
            if files and not own:
                self.client.log_artifacts(run.info.run_id, folder)


def ledger_id(results: Path) -> str:
    """16 hexadecimal digits that distinguish ledgers on a shared server.

    Created at the first call and stored in RESULTS/.tracking/ledger; a copy of the folder is the same ledger.
    """
    path = results / ".tracking" / "ledger"
    with FileLock(results / ".tracking" / "ledger.lock"):
        with contextlib.suppress(OSError):
            if re.fullmatch(r"[0-9a-f]{16}", stored := path.read_text(encoding="ascii", errors="replace").strip()):
                return stored
        new = secrets.token_hex(8)
        atomic.write_text(path, new + "\n")
        return new


def artifacts_of(results: Path) -> str:
    return (results / "mlflow-artifacts").resolve().as_uri()


def prepare_database(path: Path) -> None:
    """Makes the file of a local store, whole or not at all. UserError for a file that cannot be used: MLflow would retry for 100 s."""
    if path.is_file() and path.stat().st_size:
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=5)) as connection, connection:
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                connection.execute(f"PRAGMA user_version = {int(version)}")  # fails if the file cannot be written
        except sqlite3.DatabaseError as error:
            usable = "let this user write it, or give another --tracking-uri"
            damaged = "move it away, and `nmt-ablate reconcile` makes it anew from the ledger"
            mend = usable if isinstance(error, sqlite3.OperationalError) else damaged
            raise UserError(f"{path}: {error}; expected a database of MLflow (sqlite) that this user can write: {mend}") from error
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".mlflow-", dir=path.parent) as folder:
            new = Path(folder) / path.name
            _client(sqlite_uri(new))
            new.replace(path)
    except OSError as error:
        raise UserError(f"{path}: unable to open database file: {error.strerror or error}") from error


def _client(uri: str) -> "MlflowClient":
    """Returns a client. It does not sync a database file at every commit (20 per run): `reconcile` rebuilds the file after a crash."""
    client = _mlflow().MlflowClient(tracking_uri=uri, registry_uri=uri)
    if sqlite_path(uri) is not None:
        from sqlalchemy import event  # deferred, as MLflow

        store = client._tracking_client.store
        event.listen(store.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
        store.get_experiment = cache(store.get_experiment)  # read again for each run and each model otherwise
    return client


@cache
def _mlflow() -> ModuleType:
    """Imports MLflow, which takes seconds, after its environment is set."""
    configure()
    import mlflow

    return mlflow
