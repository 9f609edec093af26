"""What MLflow shows beside figures: dataset and model of a run, the HTML page of a sweep (RESULTS/reports/SWEEP.html), and analyses.

An analysis is a run of its own, tagged `nmt.kind=analysis`. Without the tags `nmt.sweep` and `nmt.run` it does not count as a training.
"""

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from orchestrator.files import atomic
from orchestrator.files.canonical import digest
from orchestrator.tracking.environment import reason
from orchestrator.tracking.history import text
from orchestrator.tracking.store import MAX_TAG, MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run

PAGE = "report.html"
MAX_NAME = 500
"""Characters of a dataset's name."""


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


def write_dataset(store: MlflowStore, run: "Run", data: Mapping[str, Any], corpus: str | None) -> None:
    """Logs section `data` of the spec, unless the run has a dataset. The digest covers the section and the sha256 of the corpus."""
    if not (run.inputs and run.inputs.dataset_inputs):
        source = json.dumps({"data": data, "sha256": corpus}, sort_keys=True, default=str)
        dataset = store.entities.Dataset(str(data.get("corpus"))[:MAX_NAME], digest(source)[:16], "corpus", text(source, MAX_TAG))
        training = store.entities.InputTag("mlflow.data.context", "training")
        store.client.log_inputs(run.info.run_id, [store.entities.DatasetInput(dataset, [training])])


def write_model(store: MlflowStore, run: "Run", name: str, step: int, tags: Mapping[str, str]) -> str:
    """Returns the id of the run's model, which is made if there is none. The weights stay in the ledger. step: of the checkpoint."""
    client, run_id, known = store.client, run.info.run_id, run.outputs.model_outputs if run.outputs else []
    if not known:
        clean = {key: text(value, MAX_TAG) for key, value in tags.items()}
        about = {"name": re.sub(r"[/:.%\"']", "_", name), "source_run_id": run_id, "tags": clean, "model_type": "nmt"}
        left = client.search_logged_models([store.experiment], f"source_run_id = '{run_id}'") if store.server else []  # by a killed process
        (made, *_) = left or [client.create_logged_model(store.experiment, **about)]
        client.finalize_logged_model(made.model_id, "READY")
        known = [store.entities.LoggedModelOutput(made.model_id, step)]
        client.log_outputs(run_id, known)
    return str(known[0].model_id)
