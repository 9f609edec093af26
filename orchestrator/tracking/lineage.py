"""What a run was trained on and what it made, as MLflow shows them: its dataset, and the model of its best checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.files.canonical import digest
from orchestrator.tracking.history import text
from orchestrator.tracking.store import MAX_TAG, MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run


def write_dataset(store: MlflowStore, run: Run, data: Any, corpus: str | None) -> None:
    """Logs section `data` of the spec, unless the run has a dataset. The digest covers the section and the sha256 of the corpus."""
    if isinstance(data, Mapping) and not (run.inputs and run.inputs.dataset_inputs):
        name, source = data.get("corpus"), json.dumps({"data": data, "sha256": corpus}, sort_keys=True, default=str)
        fields = (name if isinstance(name, str) else "own corpus", digest(source)[:16], "corpus", text(source, MAX_TAG))
        used = store.entities.DatasetInput(store.entities.Dataset(*fields), [store.entities.InputTag("mlflow.data.context", "training")])
        store.client.log_inputs(run.info.run_id, [used])


def write_model(store: MlflowStore, run: Run, name: str, step: int, tags: Mapping[str, str]) -> str:
    """Returns the id of the run's model, which is made if there is none. The weights stay in the ledger. step: of the checkpoint."""
    client, known = store.client, run.outputs.model_outputs if run.outputs else []
    if not known:
        clean = {key: text(value, MAX_TAG) for key, value in tags.items()}
        name = re.sub(r"[/:.%\"']", "_", name)
        made = client.create_logged_model(store.experiment, name=name, source_run_id=run.info.run_id, tags=clean, model_type="nmt")
        client.finalize_logged_model(made.model_id, "READY")
        known = [store.entities.LoggedModelOutput(made.model_id, step)]
        client.log_outputs(run.info.run_id, known)
    return str(known[0].model_id)
