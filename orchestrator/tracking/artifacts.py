"""What MLflow shows beside figures: the HTML page of a sweep (RESULTS/reports/SWEEP.html), and analyses.

An analysis is a run of its own, tagged `nmt.kind=analysis`. Without the tags `nmt.sweep` and `nmt.run` it does not count as a training.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from orchestrator.files import atomic
from orchestrator.tracking.environment import reason
from orchestrator.tracking.store import MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run

PAGE = "report.html"


def page_of(results: Path, sweep_id: str) -> Path:
    return Path(results) / "reports" / f"{sweep_id}.html"


def copy_page(store: MlflowStore, parent: "Run", sweep_id: str) -> dict[str, str]:
    """Copies the page to the sweep's run if it is new. Returns the tags to write, by which the next call knows it."""
    path = page_of(store.results, sweep_id)
    try:
        tags = {"nmt.report": str(path.stat().st_mtime_ns)}
    except OSError:
        return {}
    if parent.data.tags.get("nmt.report") != tags["nmt.report"]:
        store.write_artifacts(parent, {PAGE: path})
    return tags


def log_page(results: Path, sweep_id: str, uri: str | None = None) -> str | None:
    """Logs a sweep's page to MLflow. Returns None, or a warning if that failed (`reconcile` adds it later)."""
    try:
        store = MlflowStore(results, uri)
        with FileLock(store.lock(sweep_id)):
            for parent in store.find({"nmt.sweep": sweep_id, "nmt.kind": "sweep"})[:1]:
                store.write(parent, tags=copy_page(store, parent, sweep_id))
    except Exception as error:
        return f"warning: MLflow does not have the page ({reason(error)}); `nmt-ablate reconcile` adds it"
    return None


def log_analysis(
    results: Path, name: str, kind: str, files: Sequence[Path], params: Mapping[str, Any], tags: Mapping[str, str], uri: str | None = None
) -> str | None:
    """Logs the files of an analysis, in place of those of an earlier call. Returns None, or a warning if that failed.

    name: stable name of its run. tags: without the prefix `nmt.`.
    """
    folder = str(files[0].resolve().parent) if files else ""
    identity = {"nmt.kind": "analysis", "nmt.analysis": hashlib.sha256(f"{kind}\n{name}\n{folder}".encode()).hexdigest()}
    now = int(time.time() * 1000)
    try:
        store = MlflowStore(results, uri)
        with FileLock(store.lock("analyses")):
            for old in store.find(identity):
                store.client.delete_run(old.info.run_id)
            run = store.create(name, identity | {"nmt.analysis_kind": kind} | {f"nmt.{key}": value for key, value in tags.items()}, now)
            store.write(run, spec=atomic.plain(params))
            store.write_artifacts(run, {path.name: path for path in files})
            store.write_status(run, "FINISHED", now)
    except Exception as error:
        return f"warning: MLflow cannot be written ({reason(error)}); analyse again to log the files"
    return None
