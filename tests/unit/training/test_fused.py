"""Runs fused into one job equal their solo runs."""

from __future__ import annotations

import math
import re

import pytest
import torch
from support import KEY, SPEC, Recorder, changed

from orchestrator.fused import run_fused
from orchestrator.journal import executed_steps
from orchestrator.runtime import Runtime
from orchestrator.store import Store
from orchestrator.train import Training

SEEDS = (1, 2, 3)
RICH = changed(
    model={"norm": "post", "embeddings": "three-way", "dropout": dict.fromkeys(("embedding", "residual", "attention", "ffn"), 0.1)},
    data={"corpus": "toy-smoke", "subword": {"kind": "word", "size": 300, "joint": True}},
)


def training(spec, prepared, run_dir, seed, recorder=None, rungs=()):
    run_dir.mkdir(parents=True, exist_ok=True)
    spec = spec.model_copy(update={"seed": seed})
    return Training(spec, Runtime(), [recorder or Recorder()], prepared, Store(run_dir, KEY), frozenset(rungs), None)


def fit_fused(spec, prepared, root, recorders=None, seeds=SEEDS):
    runs = {str(s): training(spec, prepared, root / str(s), s, None if recorders is None else recorders[s]).turns() for s in seeds}
    return run_fused(runs)


def fit_solo(spec, prepared, root, seed, recorder=None):
    return training(spec, prepared, root / f"solo-{seed}", seed, recorder).run()


def assert_close(one, two, tolerance=2e-4):
    """Weights after a training: rounding, times what Adam makes of it. A key's bias has no gradient but rounding noise."""
    assert set(one) == set(two)
    worst = {name: float((one[name] - two[name]).abs().max()) for name in one if not name.endswith("key.bias")}
    assert max(worst.values()) < tolerance, max(worst.items(), key=lambda item: item[1])


def files(folder):
    """Names, those of weights without their content's hash."""
    return sorted(re.sub("-[0-9a-f]{16}", "", path.relative_to(folder).as_posix()) for path in folder.rglob("*"))


@pytest.fixture
def data_of(prepared, tmp_path_factory):
    from orchestrator.data.prepare import prepare

    return lambda spec: prepare(spec.data, None, tmp_path_factory.getbasetemp().parent / "data-cache")


@pytest.mark.parametrize("spec", [SPEC, RICH], ids=["pre", "post-tied-attention-dropout"])
def test_three_seeds_equal_their_solo_runs(data_of, tmp_path, spec):
    prepared = data_of(spec)
    recorders = {s: Recorder() for s in SEEDS}
    results, errors = fit_fused(spec, prepared, tmp_path, recorders)
    assert not errors
    for s in SEEDS:
        alone = Recorder()
        solo = fit_solo(spec, prepared, tmp_path, s, alone)
        fused = results[str(s)]
        assert_close(fused.weights, solo.weights)
        assert recorders[s].nll() == pytest.approx(alone.nll(), rel=1e-5)
        own, other = fused.progress.to_json(), solo.progress.to_json()
        same = ("step", "epoch", "index", "best_step", "tgt_tokens", "real_tokens", "padded_tokens")
        assert [own[name] for name in same] == [other[name] for name in same]
        assert files(tmp_path / str(s)) == files(tmp_path / f"solo-{s}")
    assert len({recorders[s].nll()[20] for s in SEEDS}) == 3


def test_checkpoints_go_either_way(prepared, tmp_path):
    """Fused to step 10 and alone from there; alone to step 5 or 10 and fused from there, at different steps."""
    golden = {s: fit_solo(SPEC, prepared, tmp_path, s) for s in SEEDS}
    short = changed(train={"max_steps": 10})
    fit_fused(short, prepared, tmp_path / "a")
    for s in SEEDS:
        assert_close(training(SPEC, prepared, tmp_path / "a" / str(s), s).run().weights, golden[s].weights)
    for s, steps in ((1, 5), (2, 10)):
        training(changed(train={"max_steps": steps}), prepared, tmp_path / "b" / str(s), s).run()
    results, errors = fit_fused(SPEC, prepared, tmp_path / "b")
    assert not errors and [results[str(s)].executed for s in SEEDS] == [15, 10, 20]
    assert [results[str(s)].to_json().get("fused_steps", 0) for s in SEEDS] == [15, 10, 15], "the third was alone at its end"
    for s in SEEDS:
        assert_close(results[str(s)].weights, golden[s].weights)


class Poison(Recorder):
    """Makes a training's weights NaN at a step, as a divergence would."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.training = at, None

    def on_report(self, metrics, checkpoint):
        super().on_report(metrics, checkpoint)
        if metrics["step"] == self.at:
            with torch.no_grad():
                self.training.model.output.weight.fill_(math.nan)


def test_a_diverged_run_leaves_and_a_failed_one_too(prepared, tmp_path):
    class Broken(Recorder):
        def on_report(self, metrics, checkpoint):
            if metrics["step"] == 5:
                raise OSError("disk full")

    spec = changed(train={"validate_every": 5})
    poison = Poison(10)
    runs = {str(s): training(spec, prepared, tmp_path / str(s), s, {2: poison, 4: Broken()}.get(s)) for s in (1, 2, 3, 4)}
    poison.training = runs["2"]
    results, errors = run_fused({name: run.turns() for name, run in runs.items()})
    assert {name: r.status for name, r in results.items()} == {"1": "done", "2": "diverged", "3": "done"}
    assert results["2"].progress.step == 10 and str(errors["4"]) == "disk full"
    for s in (1, 3):
        assert_close(results[str(s)].weights, fit_solo(spec, prepared, tmp_path, s).weights)


def test_an_interrupt_saves_every_run(prepared, tmp_path, monkeypatch):
    from orchestrator import interrupt

    steps = iter(range(100))
    monkeypatch.setattr(interrupt, "requested", lambda: next(steps) >= 3 * 6)  # during the seventh update
    with pytest.raises(KeyboardInterrupt):
        fit_fused(SPEC, prepared, tmp_path)
    monkeypatch.undo()
    assert {s: Store(tmp_path / str(s), KEY).latest(lambda *a: None, repair=False).step for s in SEEDS} == dict.fromkeys(SEEDS, 7)
    results, _ = fit_fused(SPEC, prepared, tmp_path)
    for s in SEEDS:
        assert_close(results[str(s)].weights, fit_solo(SPEC, prepared, tmp_path, s).weights)
        assert executed_steps(tmp_path / str(s) / "journal.jsonl") == 20


def test_runs_of_different_lengths_and_micro_batches(prepared, tmp_path):
    """One stops early (epochs), and the last update of an epoch has fewer micro-batches than the others' updates."""
    spec = changed(batch={"accumulate": 3, "size": 120}, train={"max_steps": None, "max_epochs": 1})
    longer = changed(batch={"accumulate": 3, "size": 120}, train={"max_steps": 70})
    runs = {"1": training(spec, prepared, tmp_path / "1", 1).turns(), "2": training(longer, prepared, tmp_path / "2", 2).turns()}
    results, errors = run_fused(runs)
    assert not errors
    assert_close(results["1"].weights, fit_solo(spec, prepared, tmp_path, 1).weights, 1e-3)
    assert_close(results["2"].weights, fit_solo(longer, prepared, tmp_path, 2).weights, 1e-3)


def test_bf16_runs_fuse_too(prepared, tmp_path):
    spec = changed(train={"precision": "bf16", "max_steps": 10})
    recorders = {s: Recorder() for s in SEEDS}
    _, errors = fit_fused(spec, prepared, tmp_path, recorders)
    assert not errors
    for s in SEEDS:
        alone = Recorder()
        fit_solo(spec, prepared, tmp_path, s, alone)
        assert recorders[s].nll() == pytest.approx(alone.nll(), rel=5e-3)
