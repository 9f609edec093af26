import math
import shutil

import pytest
import torch

from models.transformer import build
from orchestrator.errors import UserError
from orchestrator.ledger.weights import weights_sha256
from orchestrator.training.batches import UpdateLoader
from orchestrator.training.initial_weights import warm_start
from orchestrator.training.objective import Normalizer, Objective, token_nll
from tests.unit.training.support import OFF, SPEC, Recorder, changed, fit


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile's default backend needs g++")
def test_a_compiled_training_has_the_same_losses(prepared, tmp_path):
    small = {"encoder": {"num_layers": 1}, "decoder": {"num_layers": 1}, "dropout": OFF}  # compiling takes a minute a layer
    short = {"max_steps": 4, "validate_every": 4, "checkpoint_every": 4, "snapshots": 0}
    plain, compiled = Recorder(), Recorder()
    fit(changed(model=small, train=short), prepared, tmp_path / "plain", plain)
    fit(changed(model=small, train=short | {"compile": True}), prepared, tmp_path / "compiled", compiled)
    assert compiled.nll() == pytest.approx(plain.nll(), rel=1e-4)


def test_learns_and_repeats_bit_for_bit(prepared, tmp_path):
    one, two = Recorder(), Recorder()
    first = fit(SPEC, prepared, tmp_path / "one", one)
    second = fit(SPEC, prepared, tmp_path / "two", two)
    assert first.status == "done" and first.progress.step == 20
    assert one.nll()[20] < one.nll()[10] < math.log(prepared.tgt_size)
    assert weights_sha256(first.weights) == weights_sha256(second.weights)
    assert one.nll() == two.nll()
    other = fit(SPEC.model_copy(update={"seed": 2}), prepared, tmp_path / "three")
    assert weights_sha256(other.weights) != weights_sha256(first.weights)


def test_rungs_and_checkpoints_never_change_the_weights(prepared, tmp_path):
    plain = fit(SPEC, prepared, tmp_path / "plain")
    recorder = Recorder()
    with_rungs = fit(changed(train={"checkpoint_every": 7}), prepared, tmp_path / "rungs", recorder, rungs=[3, 12])
    assert weights_sha256(plain.weights) == weights_sha256(with_rungs.weights)
    assert [m["rung"] for m in recorder.reports if "rung" in m] == [3, 12]
    assert with_rungs.progress.best_step in (10, 20)


def test_warm_start_copies_what_matches(prepared, tmp_path):
    parent = fit(SPEC, prepared, tmp_path / "parent")
    variant = changed(model={"decoder": SPEC.model.decoder.model_dump() | {"aggregation": {"kind": "linear"}}})
    model = build(variant.model.model_dump(), prepared.src_size, prepared.tgt_size, 9)
    report = warm_start(model, parent.weights)
    assert report["fresh"] and all(name.startswith("decoder.aggregation.combine") for name in report["fresh"])
    for name in report["copied"]:
        assert torch.equal(dict(model.named_parameters())[name], parent.weights[name])
    recorder = Recorder()
    child = fit(variant, prepared, tmp_path / "child", recorder, init_weights=parent.weights)
    assert child.status == "done" and report["unused"] == []
    assert recorder.reports[0]["warm_start"] == child.to_json()["warm_start"] == report
    with pytest.raises(UserError, match="no tensor of the parent"):
        warm_start(model, {"output.weight": torch.zeros(1)})


def test_accuracy_in_training_is_that_of_the_sampled_positions(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.training.objective.SAMPLE", 1)
    off = changed(model={"dropout": OFF}, train={"max_steps": 1, "validate_every": 1, "snapshots": 0})
    recorder = Recorder()
    fit(off, prepared, tmp_path / "run", recorder)
    model = build(off.model.model_dump(), prepared.src_size, prepared.tgt_size, off.seed)
    update = next(iter(UpdateLoader(prepared.pairs("train"), off.batch, off.seed, 0, 1).updates(0, 0)))
    right = sum(token_nll(model, b.src, b.tgt_in, b.tgt_out)[1] for b in update.micro_batches)
    metrics = next(m for m in recorder.reports if "train/accuracy" in m)
    assert metrics["train/accuracy"] == pytest.approx(float(right) / update.tgt_tokens)


def test_bf16_follows_fp32(prepared, tmp_path):
    fit(SPEC, prepared, tmp_path / "fp32", full := Recorder())
    fit(changed(train={"precision": "bf16"}), prepared, tmp_path / "bf16", half := Recorder())
    assert half.nll()[20] == pytest.approx(full.nll()[20], rel=0.02)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_penalty_counts_once_an_update_however_it_is_split(prepared, tmp_path, accumulate):
    """Of the same updates' gradients, with and without the penalty, the difference is 2 * weight * W."""
    spec = changed(model={"dropout": OFF}, batch={"accumulate": accumulate})
    update = next(iter(UpdateLoader(prepared.pairs("train"), spec.batch, 1, 0, 1).updates(0, 0)))
    assert len(update.micro_batches) == accumulate
    gradients, logged = [], 0.0
    for regularizers in ([], [{"kind": "encoder_l2", "weight": 0.25}]):
        model = build(spec.model.model_dump() | {"regularizers": regularizers}, prepared.src_size, prepared.tgt_size, 1).train()
        objective = Objective(model, 0.1)
        for batch in update.micro_batches:
            loss, log = objective(batch.src, batch.tgt_in, batch.tgt_out, Normalizer(update.src_tokens, update.tgt_tokens, 1.0))
            loss.backward()
            logged += float(log.get("encoder_l2_encoder", 0.0))
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    squares = 0.0
    for name, weight in model.named_parameters():
        penalised = name.startswith("encoder.") and weight.ndim == 2
        squares += float(weight.detach().square().sum()) if penalised else 0.0
        expected = 0.5 * weight.detach() if penalised else torch.zeros_like(weight)
        torch.testing.assert_close(gradients[1][name] - gradients[0][name], expected, atol=1e-5, rtol=1e-4, msg=name)
    assert logged == pytest.approx(squares, rel=1e-4)
