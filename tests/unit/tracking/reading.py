"""What MLflow itself reads in a results folder's database."""

from pathlib import Path
from typing import Any

from orchestrator.tracking.environment import default_uri


def mlflow_client(results: Path):
    """MLflow's own client of a local store."""
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=default_uri(results))


def runs_of(results: Path, sweep_id: str = "sweep-1") -> list[Any]:
    """The runs of a sweep and its parent, as MLflow's own search returns them; none before the first write."""
    client = mlflow_client(results)
    experiment = client.get_experiment_by_name("nmt-ablate")
    query = f"tags.`nmt.sweep` = '{sweep_id}'"
    return [] if experiment is None else list(client.search_runs([experiment.experiment_id], query, max_results=1000))
