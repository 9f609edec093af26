"""The length penalty that does best on the validation set: tried once, remembered, and used for every test set."""

import pytest

from orchestrator.data.prepare import manifest
from orchestrator.decoding import validation_bleu
from orchestrator.errors import UserError
from orchestrator.ledger.keys import keys_of
from orchestrator.sweeps.row import ledger_of, run_row, view_of
from orchestrator.sweeps.task import Scoring, Task
from orchestrator.training.runtime import Runtime
from tests.unit.training.support import changed

CANDIDATES = [0.0, 1.0, 3.0]


def task_of(spec, tmp_path, prepared):
    about = manifest(spec.data, None)
    other = spec.model_copy(update={"score": spec.score.model_copy(update={"test": "valid"})})
    also = {"valid": Scoring(other.score, keys_of(other, about, None))}
    keys = keys_of(spec, about, None)
    return Task("demo/small/tuned", 1, spec, keys, str(tmp_path), cache_dir=str(prepared.path.parent), also=also)


def spec_of(**penalty):
    return changed(train={"max_steps": 4}, decode={"beam_size": 2, "max_extra": 3, "length_penalty": {"kind": "gnmt", **penalty}})


def test_the_best_on_validation_is_used_and_remembered(prepared, tmp_path, monkeypatch):
    tried = []
    scores = iter([10.0, 12.0, 12.0])

    def score(text, tokens, prepared, split, metric):
        tried.append(split)
        return {"bleu": next(scores), "signature": "stub"}

    monkeypatch.setattr(validation_bleu, "score", score)
    spec = spec_of(alpha="tuned", candidates=CANDIDATES)
    task = task_of(spec, tmp_path, prepared)
    with pytest.raises(UserError, match="its length penalty is tuned, and was not yet"):
        validation_bleu.tuned_decode(spec.decode, task.keys, ledger_of(task), task.id)
    run_row(task, Runtime())
    assert view_of(task, ledger_of(task)).status == "done" and tried == ["valid"] * 3, "once, though two test sets were decoded"
    ledger = ledger_of(task)
    record = ledger.record(task.train_key, "tune", task.keys.tune)
    assert record["alpha"] == 1.0, "the first of equals"
    assert record["candidates"] == [{"alpha": a, "bleu": b} for a, b in zip(CANDIDATES, (10.0, 12.0, 12.0), strict=True)]
    decoded = ledger.read_decode(task.train_key, task.keys.decode)
    assert decoded["length_penalty"] == 1.0
    assert validation_bleu.tuned_decode(spec.decode, task.keys, ledger, task.id).length_penalty.alpha == 1.0
    # the same text as with that exponent written down
    run_row(other := task_of(spec_of(alpha=1.0), tmp_path, prepared), Runtime())
    assert other.keys.train == task.keys.train and other.keys.decode != task.keys.decode
    assert ledger.read_decode(task.train_key, other.keys.decode)["hypotheses"] == decoded["hypotheses"]
    assert "length_penalty" not in ledger.read_decode(task.train_key, other.keys.decode)


def test_a_greedy_search_tries_one_exponent(prepared, tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(validation_bleu, "score", lambda *_: tried.append(10.0) or {"bleu": 10.0, "signature": "stub"})
    spec = spec_of(alpha="tuned", candidates=CANDIDATES)
    task = task_of(spec.model_copy(update={"decode": spec.decode.model_copy(update={"beam_size": 1})}), tmp_path, prepared)
    run_row(task, Runtime())
    record = ledger_of(task).record(task.train_key, "tune", task.keys.tune)
    assert tried == [10.0] and record["alpha"] == CANDIDATES[0] and record["candidates"] == [{"alpha": CANDIDATES[0], "bleu": 10.0}]
