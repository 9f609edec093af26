"""Who trains as one job, and the local engine doing it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support import SPEC, changed

from orchestrator.fusing import MOST, fuse, is_fused, why_not, why_not_here
from orchestrator.task import Task

WIDE = changed(model={"d_model": 512, "num_heads": 8})


def task(seed=1, spec=SPEC, row="t/t/r", **more):
    spec = spec.model_copy(update={"seed": seed})
    keys = {"train": f"{row}{seed}", "decode": None, "score": None}
    return Task(id=row, seed=seed, spec=spec.model_dump(), keys=keys, results="r", **more)


def names(jobs):
    return [[t.name for t in job] for job in jobs]


def test_reasons_name_what_stands_against_it():
    assert why_not(SPEC) is None
    assert "2 workers" in why_not(SPEC, workers=2)
    assert "compile" in why_not(changed(train={"compile": True}))
    assert "recompute" in why_not(changed(train={"recompute": "layers"}))
    assert why_not_here(SPEC, "auto", "cpu") is None
    assert "512" in why_not_here(WIDE, "auto", "cpu") and why_not_here(WIDE, "always", "cpu") is None
    assert why_not_here(WIDE, "auto", "cuda") is None
    assert "never" in why_not_here(SPEC, "never", "cuda")
    assert "ASHA" in why_not_here(SPEC, "auto", "cpu", rungs=[10]) and why_not_here(SPEC, "always", "cpu", rungs=[10]) is None
    assert "ASHA" in why_not_here(SPEC, "always", "cpu", rungs=[10], engine="ray")


def test_seeds_of_equal_shapes_share_a_job():
    other = changed(model={"d_ff": 48})
    jobs = [[task(1)], [task(2)], [task(1, other, "t/t/o")], [task(3)], [task(2, other, "t/t/o")]]
    assert names(fuse(jobs, "auto", "cpu")) == [["t/t/r:1", "t/t/r:2", "t/t/r:3"], ["t/t/o:1", "t/t/o:2"]]
    assert fuse(jobs, "never", "cpu") == jobs
    assert [is_fused(job) for job in fuse(jobs[:1], "always", "cpu")] == [False]


def test_joining_leaves_work_for_every_slot_and_ends_at_most():
    jobs = [[task(seed)] for seed in range(1, 7)]
    assert [len(job) for job in fuse(jobs, "auto", "cpu", slots=2)] == [3, 3]
    assert [len(job) for job in fuse(jobs, "auto", "cpu", slots=6)] == [1] * 6
    assert [len(job) for job in fuse(jobs, "always", "cpu", slots=6)] == [6]
    many = fuse([[task(seed)] for seed in range(1, MOST + 2)], "auto", "cpu")
    assert sum(map(len, many)) == MOST + 1 and max(map(len, many)) <= MOST and min(map(len, many)) > 1


@pytest.fixture
def swept(tmp_path):
    from orchestrator.engine import execute
    from orchestrator.make_tasks import Options
    from orchestrator.rows import resolve

    path = tmp_path / "seeds.yaml"
    path.write_text(
        """
source: {paper: try, table: seeds}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
batch: {unit: tokens, size: 300}
model: {d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
optim: {schedule: {kind: inverse-sqrt, lr: 3.0e-3, warmup: 10}, label_smoothing: 0.1, clip_norm: 1.0}
train: {max_steps: 20, validate_every: 10, checkpoint_every: 10}
decode: {beam_size: 2}
rows:
  baseline: {}
  variant: {model: {encoder: {aggregation: {kind: linear}}}, init_from: baseline}
"""
    )

    def sweep(name, mode):
        options = Options(name, results=tmp_path / name, cache_dir=tmp_path / "cache", tracking=False, fuse=mode)
        return execute(resolve(str(path)), [1, 2, 3], options)

    return sweep


def test_the_local_engine_gives_a_fused_sweep_the_records_of_a_solo_one(swept, tmp_path, capfd):
    fused = swept("fused", "auto")
    assert "fused: try/seeds/baseline:1, try/seeds/baseline:2, try/seeds/baseline:3" in " ".join(capfd.readouterr().err.split())
    solo = swept("solo", "never")
    assert [(r["id"], r["seed"], r["status"], r["keys"], r["steps"], r["params"]) for r in fused] == [
        (r["id"], r["seed"], r["status"], r["keys"], r["steps"], r["params"]) for r in solo
    ]
    assert {r["status"] for r in fused} == {"done"}
    for one, two in zip(fused, solo, strict=True):
        assert one["bleu"] == pytest.approx(two["bleu"], abs=1.0)
        a, b = (json.loads((tmp_path / name / one["keys"]["train"][:16] / "train.json").read_text()) for name in ("fused", "solo"))
        assert set(a) - set(b) == {"fused_steps"} and a["fused_steps"] == a["steps"] == 20
        assert a["valid"]["nll"] == pytest.approx(b["valid"]["nll"], rel=1e-4)
    again = swept("fused", "auto")
    assert again == fused
    assert "nothing to do" in capfd.readouterr().err


def test_a_locked_run_ends_the_sweep_as_it_does_alone(tmp_path, prepared):
    from orchestrator.errors import LockedError
    from orchestrator.launch import local
    from orchestrator.lock import RunLock

    tasks = [replace(task(seed), results=str(tmp_path), cache_dir=str(prepared.path.parent)) for seed in (1, 2)]
    tasks[1].run_dir.mkdir(parents=True)
    with RunLock(tasks[1].run_dir / "lock"), pytest.raises(LockedError):
        local.run([tasks], None, "valid/nll")
