"""The HTML page of a sweep (RESULTS/reports/SWEEP.html) as an artifact of the sweep's run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from orchestrator.tracking.environment import reason
from orchestrator.tracking.store import MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run

ARTIFACT = "report.html"


def page_of(results: Path, sweep_id: str) -> Path:
    """Where the page of a sweep is."""
    return Path(results) / "reports" / f"{sweep_id}.html"


def copy_page(store: MlflowStore, parent: Run, sweep_id: str) -> dict[str, str]:
    """Copies the page to the sweep's run if it is new. Returns the tags to write, by which the next call knows it."""
    path = page_of(store.results, sweep_id)
    try:
        tags = {"nmt.report": str(path.stat().st_mtime_ns)}
    except OSError:
        return {}
    if parent.data.tags.get("nmt.report") != tags["nmt.report"]:
        store.write_artifacts(parent, {ARTIFACT: path})
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
