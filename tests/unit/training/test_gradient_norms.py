"""`train.log_gradient_norms`: what is logged, that it changes nothing, that it has no gaps."""

import pytest

from models.transformer import build
from orchestrator.files.json_lines import read_lines
from orchestrator.ledger.weights import weights_sha256
from orchestrator.tracking.history import read_points
from orchestrator.training.batches import UpdateLoader
from orchestrator.training.metrics import METRIC, SAMPLES, GradientNorms, HistoryReporter, history_lines
from orchestrator.training.objective import Normalizer, Objective
from tests.unit.training.support import OFF, changed, fit

EVERY_3 = {"log_gradient_norms": 3}


def test_it_is_the_norm_of_each_layer(prepared):
    """Against the definition: sqrt of the sum of squares of all the layer's gradients, at the first update."""
    spec = changed(model={"dropout": OFF})
    model = build(spec.model.model_dump(), prepared.src_size, prepared.tgt_size, spec.seed)
    update = next(iter(UpdateLoader(prepared.pairs("train"), spec.batch, spec.seed).updates(0, 0)))
    (batch,) = update.micro_batches
    loss, _ = Objective(model, 0.1)(batch.src, batch.tgt_in, batch.tgt_out, Normalizer(update.src_tokens, update.tgt_tokens, 1.0))
    loss.backward()
    norms = GradientNorms(model, 2)
    for step in (1, 2, 3, 4):
        norms.record(step)
    found = norms.flush()[SAMPLES]
    expected = [sum(float(p.grad.double().square().sum()) for p in layer.parameters()) ** 0.5 for layer in model.encoder.layers]
    assert [step for step, _ in found] == [2, 4]
    assert found[0][1] == pytest.approx(expected, rel=1e-5) and min(expected) > 0
    assert norms.flush() == {}, "each update is told once"


def test_it_is_taken_before_clipping_and_changes_no_weight(prepared, tmp_path):
    spec = changed(optim={"clip_norm": 1e-3})
    plain = fit(spec, prepared, tmp_path / "plain")
    (tmp_path / "logged").mkdir()
    watched = fit(changed(spec, train=EVERY_3), prepared, tmp_path / "logged", HistoryReporter(tmp_path / "logged" / "history.jsonl"))
    assert weights_sha256(plain.weights) == weights_sha256(watched.weights)
    found = {r["step"]: list(r[METRIC].values()) for r in read_lines(tmp_path / "logged" / "history.jsonl") if METRIC in r}
    assert list(found) == [3, 6, 9, 12, 15, 18] and {len(norms) for norms in found.values()} == {2}
    assert min(min(norms) for norms in found.values()) > 1e-2, "all gradients together are clipped to 1e-3"


def test_the_history_has_a_line_for_each_update(tmp_path):
    report = {"step": 50, "train/nll": 1.0, SAMPLES: [[20, [0.5, 0.25]], [40, [0.125, float("nan")]]]}
    found = history_lines(report)
    assert found[:1] == [{"step": 20, METRIC: {"1": 0.5, "2": 0.25}}] and found[2] == {"step": 50, "train/nll": 1.0} and len(found) == 3
    assert history_lines({"step": 30, SAMPLES: report[SAMPLES]}) == found[:2]
    assert history_lines({"step": 1, "a": 2}) == [{"step": 1, "a": 2}]
    reporter = HistoryReporter(tmp_path / "history.jsonl")
    reporter(report)
    points = read_points(read_lines(tmp_path / "history.jsonl"), 0)
    expected = [(f"{METRIC}.1", 20, 0.5), (f"{METRIC}.2", 20, 0.25), (f"{METRIC}.1", 40, 0.125)]
    assert [(p.key, p.step, p.value) for p in points][:3] == expected
