"""Names that reach a plain MLflow server over REST, which checks them as a local database does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.tracking.names import MAX_KEY, valid_name
from orchestrator.tracking.store import MlflowStore
from orchestrator.tracking.sweeps import BackgroundProjector, reconcile
from orchestrator.tracking.ui import free_port, start_ui
from orchestrator.tracking.views import newest

SWEEP = "quickstart-fusion-baseline@smoke+1a2b3c4d-retrain"


@given(st.text(alphabet="aZ0._-/:@+=λ\0 ", max_size=300) | st.text())
@example("a" * (MAX_KEY - 2) + "/.b")
@example("paper.a//b/../..")
@settings(max_examples=300, deadline=None)
def test_mlflow_accepts_every_key(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name, _validate_param, _validate_tag

    key = valid_name(name)
    _validate_metric_name(key)
    _validate_param(key, "value")
    _validate_tag(key, "value")
    assert len(key) <= MAX_KEY and valid_name(key) == key


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A plain `mlflow server` on loopback."""
    with start_ui(tmp_path_factory.mktemp("server"), free_port(5700)) as running:
        yield running.url


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_sweep_with_a_profile_and_overrides_ends_on_a_server(fake_results: Any, server: str, tmp_path: Path) -> None:
    spec = {"expect": {"a//b/..": 1}, "λ": {"/x": "y\0z"}}
    row = fake_results.row("row5@params=baseline", spec=spec)
    fake_results.finished(row)
    fake_results.history(row, 21, 21, **{"../odd@name": 1.0, "train/": 2.0})
    fake_results.sweep([row], SWEEP, name="quickstart/fusion/baseline@smoke+1a2b3c4d")
    said: list[str] = []
    tracking = BackgroundProjector(fake_results.root, SWEEP, server, warn=said.append)
    tracking.start()
    assert tracking.stop(120) and said == []
    store = MlflowStore(fake_results.root, server)
    assert {run.info.status for run in store.search(SWEEP)} == {"FINISHED"}
    assert reconcile(fake_results.root, server) == ({"done": 1}, [])
    ((key, name),) = newest(store.client.get_experiment(store.experiment).tags, 3)
    assert name.endswith("@smoke+1a2b3c4d") and key == valid_name(key)
