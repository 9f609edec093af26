"""What a plain MLflow server gets over REST: names, which it checks as a local database does not, datasets and models."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.tracking.artifacts import log_analysis
from orchestrator.tracking.history import MAX_KEY, valid_name
from orchestrator.tracking.projector import Projector
from orchestrator.tracking.store import MlflowStore
from orchestrator.tracking.sweeps import BackgroundProjector, reconcile
from tests.unit.tracking.reading import mlflow_client, runs_of
from tests.unit.tracking.serving import served

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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_sweep_with_a_profile_and_overrides_ends_on_a_server(fake_results, tmp_path_factory) -> None:
    spec = {"expect": {"a//b/..": 1}, "λ": {"/x": "y\0z"}, "data": {"corpus": "toy"}}
    row = fake_results.row("row5@params=baseline", spec=spec)
    fake_results.finished(row)
    fake_results.history(row, 21, 21, **{"../odd@name": 1.0, "train/": 2.0})
    fake_results.sweep([row], SWEEP, name="quickstart/fusion/baseline@smoke+1a2b3c4d")
    said: list[str] = []
    with served(tmp_path_factory.mktemp("server"), 5700) as running:  # a plain `mlflow server` on loopback
        tracking = BackgroundProjector(fake_results.root, SWEEP, running.url, warn=said.append)
        tracking.start()
        tracking.stop(120)
        assert said == []
        store = MlflowStore(fake_results.root, running.url)
        assert {run.info.status for run in store.find({"nmt.sweep": SWEEP})} == {"FINISHED"}
        assert reconcile(fake_results.root, running.url) == ({"done": 1}, [])
        (child,) = (run for run in store.find({"nmt.sweep": SWEEP}) if run.data.tags["nmt.kind"] == "run")
        assert "train.json" in {file.path for file in store.client.list_artifacts(child.info.run_id)}
        check_lineage(store.client, store.experiment, child)
        record = fake_results.run_dir(row) / "train.json"
        assert log_analysis(fake_results.root, "lengths", "length", [record], {}, {}, running.url) is None
        (analysis,) = store.find({"nmt.kind": "analysis"})
        assert [file.path for file in store.client.list_artifacts(analysis.info.run_id)] == [record.name]


def test_a_run_has_its_data_its_model_and_links_the_report(fake_results) -> None:
    """The UI's comparison opens with the first metric of a run, here of one that was shown while it trained."""
    row = fake_results.row("one", spec={"data": {"corpus": "toy"}})
    fake_results.spec(row)
    fake_results.history(row, 1, 3, **{"valid/nll": 4.0})
    projector = Projector(fake_results.root)
    projector.sync(fake_results.sweep([row]))
    fake_results.train(row)
    fake_results.score(row)
    for _ in range(2):
        projector.sync("sweep-1", live=False)
        projector = Projector(fake_results.root)
    client = mlflow_client(fake_results.root)
    parent, run = sorted(runs_of(fake_results.root), key=lambda run: run.data.tags["nmt.kind"] == "run")
    assert next(iter(client.get_run(run.info.run_id).data.metrics)) == "bleu"
    page = f"#/experiments/{run.info.experiment_id}/runs/{parent.info.run_id}/artifacts/report.html"
    assert run.data.tags["mlflow.note.content"].endswith(f"({page})")
    check_lineage(client, run.info.experiment_id, run)


def check_lineage(client, experiment: str, child) -> None:
    """The run has its dataset with a digest, and one model with the run's figures."""
    run = client.get_run(child.info.run_id)
    (used,) = run.inputs.dataset_inputs
    assert (used.dataset.name, len(used.dataset.digest), used.tags[0].value) == ("toy", 16, "training")
    (model,) = client.search_logged_models([experiment], f"source_run_id = '{run.info.run_id}'")
    assert str(model.status) == "READY" and model.tags["nmt.row"] == run.data.tags["nmt.row"] and "/weights" in model.tags["nmt.weights"]
    assert {metric.key: metric.value for metric in model.metrics}["bleu"] == run.data.metrics["bleu"]
    assert [output.model_id for output in run.outputs.model_outputs] == [model.model_id]
