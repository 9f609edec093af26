"""What a run was trained on and what it made: its dataset, and the model of its best checkpoint, as MLflow shows them.

The weights stay in the ledger; the model's tags name them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from orchestrator.tracking.history import Point
from orchestrator.tracking.names import text, valid_name
from orchestrator.tracking.source import RunResult
from orchestrator.tracking.sqlite_client import SqliteClient
from orchestrator.tracking.store import MAX_TAG, MlflowStore, StoredRun

DATASET, MODEL = "nmt.dataset", "nmt.model"
"""Tags of a run: the digest of its dataset, and the id of its model."""


def write_lineage(
    store: MlflowStore, child: StoredRun, result: RunResult, name: str, finals: Sequence[Point], tags: Mapping[str, str]
) -> None:
    """Writes the dataset and the model of a run that has ended, unless the run has them.

    finals: the figures of the model, which become the run's own too. tags: of the model.
    """
    client, entities, written = store.client, store.entities, {}
    if result.dataset is not None and child.tags.get(DATASET) != result.dataset["digest"]:
        used = entities.DatasetInput(entities.Dataset(**result.dataset), [entities.InputTag("mlflow.data.context", "training")])
        client.log_inputs(child.run_id, datasets=[used])
        written[DATASET] = result.dataset["digest"]
    metrics = []
    if result.state in ("done", "stopped") and "weights_sha256" in result.tags and MODEL not in child.tags:
        model = _model(store, child, re.sub(r"[/:.%\"']", "_", name), result.best_step, tags)
        metrics = [entities.Metric(valid_name(point.key), point.value, point.time, point.step, model) for point in finals]
        written[MODEL] = model
    if written:
        client.log_batch(child.run_id, metrics=metrics, params=[], tags=[entities.RunTag(key, value) for key, value in written.items()])
        child.tags.update(written)
        child.last.update((metric.key, metric.step) for metric in metrics)


def _model(store: MlflowStore, child: StoredRun, name: str, step: int, tags: Mapping[str, str]) -> str:
    """The id of the run's model, which is made if there is none."""
    client = store.client
    if isinstance(client, SqliteClient):
        known = client.models_of(child.run_id)
    else:
        known = [model.model_id for model in client.search_logged_models([store.experiment], f"source_run_id = '{child.run_id}'")]
    if not known:
        clean = {key: text(value, MAX_TAG) for key, value in tags.items()}
        made = client.create_logged_model(store.experiment, name=name, source_run_id=child.run_id, tags=clean, model_type="nmt")
        known = [made.model_id]
        client.log_outputs(child.run_id, [store.entities.LoggedModelOutput(made.model_id, step)])
    client.finalize_logged_model(known[0], "READY")
    return str(known[0])
