"""A search and what follows it: BLEU at rungs, the best rows again with seeds of their own, children of a parent that failed."""

import json

import pytest

from models.transformer import build
from orchestrator.cli.main import run
from orchestrator.decoding.translate import decode_corpus
from orchestrator.decoding.validation_bleu import rung_bleu
from orchestrator.errors import UserError
from orchestrator.ledger.weights import copy_into, weights_sha256
from orchestrator.scoring.scores import sacre_bleu
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.specs.schema import DecodeSpec
from orchestrator.specs.table import SweepSpec
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.retrain import check_seeds
from orchestrator.sweeps.task import make_tasks
from tests.unit.training.support import Recorder, changed, fit

FILE = """\
source: {paper: demo, table: search}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
batch: {unit: tokens, size: 300}
model: {d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
optim: {schedule: {kind: inverse-sqrt, lr: 3.0e-3, warmup: 10}}
train: {max_steps: 6, validate_every: 3, checkpoint_every: 3}
decode: {beam_size: 1}
sweep:
  seeds: [1]
  scheduler: {kind: asha, metric: valid/nll, mode: min, rungs: [3], reduction_factor: 2.0, retrain: {top: 1, seeds: [7]}}
rows:
  base: {label: baseline, pinned: true}
  slow: {label: slow, optim: {schedule: {kind: inverse-sqrt, lr: 1.0e-6, warmup: 10}}}
  wide: {label: wide, model: {d_ff: 64}}
"""


def test_bleu_at_a_rung_is_that_of_the_validation_set_and_leaves_the_weights_alone(prepared, tmp_path):
    spec = changed(train={"max_steps": 12})
    plain, recorder = fit(spec, prepared, tmp_path / "plain"), Recorder()
    measured = fit(spec, prepared, tmp_path / "bleu", recorder, rungs=[6], rung_metrics=rung_bleu(spec, prepared))
    assert weights_sha256(plain.weights) == weights_sha256(measured.weights)
    assert [m["step"] for m in recorder.reports if "valid/bleu" in m] == [6, 12]  # the rung, and the end
    model = build(spec.model.model_dump(), prepared.src_size, prepared.tgt_size, spec.seed)
    copy_into(model, measured.weights)
    model.train()
    ids = [found[0].ids for found in decode_corpus(model.eval(), prepared.encode(prepared.sources("valid")), DecodeSpec(beam_size=1))]
    bleu = sacre_bleu(prepared.decode(ids), prepared.references("valid"))["score"]
    assert [m["valid/bleu"] for m in recorder.reports if "valid/bleu" in m][-1] == bleu


@pytest.mark.slow
def test_a_search_ends_with_its_best_rows_in_full(tmp_path, capfd):
    spec, results = tmp_path / "search.yaml", tmp_path / "results"
    spec.write_text(FILE)
    call = ["sweep", str(spec), "--engine", "local", "--no-tracking", "--json"]
    call += ["--results", str(results), "--cache-dir", str(tmp_path / "cache")]
    assert run(call) == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    search, again = ([r for r in records if bool(r.get("replicate")) is flag] for flag in (False, True))
    assert {(r["id"].rpartition("/")[2], r["seed"]) for r in search} == {("base", 1), ("slow", 1), ("wide", 1)}
    rows = {r["id"].rpartition("/")[2] for r in again}
    assert "base" in rows and "slow" not in rows  # the pinned row comes with the best one
    assert {r["seed"] for r in again} == {7} and all(r["status"] == "done" and r["steps"] == 6 for r in again)
    asked = json.loads((results / "sweeps" / "demo-search.asha.json").read_text())
    assert {r["run"].rpartition(":")[2] for r in asked["rungs"]["3"]} == {"1"}  # the scheduler never saw a replicate

    before = {path: path.read_bytes() for path in results.glob("*/train.json")}
    assert run(call) == 0
    assert "0 steps executed" in capfd.readouterr().err
    assert {path: path.read_bytes() for path in results.glob("*/train.json")} == before


def test_seeds_of_the_search_are_no_replicates():
    scheduler = {"rungs": [5], "retrain": {"seeds": [2, 3]}}
    with pytest.raises(ValueError, match=r"retrain.seeds \[2\] are seeds of the search"):
        SweepSpec.model_validate({"seeds": [1, 2], "scheduler": scheduler})
    with pytest.raises(UserError, match=r"found \[3\], which the search trains with"):
        check_seeds(scheduler["retrain"], [1, 3])
    with pytest.raises(ValueError, match="mode min keeps the worst by valid/bleu"):
        SweepSpec.model_validate({"scheduler": {"rungs": [5], "metric": "valid/bleu", "mode": "min"}})


def test_children_of_a_parent_that_failed_do_not_start_and_name_it(tmp_path, capfd, monkeypatch):
    from orchestrator.sweeps import row

    spec = tmp_path / "family.yaml"
    head = FILE.partition("sweep:")[0]
    spec.write_text(head + "rows:\n  parent: {label: p}\n  child: {label: c, init_from: parent}\n  other: {label: o, model: {d_ff: 64}}\n")
    train = row._train

    def failing(task, *rest):
        if task.id.endswith("/parent"):
            raise RuntimeError("no more memory")
        return train(task, *rest)

    monkeypatch.setattr(row, "_train", failing)
    places = ["--results", str(tmp_path / "results"), "--cache-dir", str(tmp_path / "cache")]
    assert run(["sweep", str(spec), "--engine", "local", "--no-tracking", "--json", *places]) == 1
    found = {r["id"].rpartition("/")[2]: r for r in map(json.loads, capfd.readouterr().out.splitlines())}
    assert found["other"]["status"] == "done"
    assert found["child"]["status"] == "failed" and found["child"]["steps"] == 0
    assert found["child"]["reason"] == "its parent demo/search/parent:1 failed: RuntimeError: no more memory"
    assert not list((tmp_path / "results" / found["child"]["keys"]["train"][:16]).glob("journal.jsonl"))


def test_runs_measure_bleu_at_rungs_where_the_scheduler_compares_by_it(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(FILE.replace("valid/nll, mode: min", "valid/bleu, mode: max"))
    for name, section in (("search", sweep_of(str(path)).model_dump()), ("table", None)):
        tasks = make_tasks(resolve(str(path)), [1], ExecutionOptions(name=name, results=tmp_path, cache_dir=tmp_path, sweep=section))
        assert {task.rung_bleu for task in tasks} == {section is not None}
