"""What a decoding is made of and what it says: which weights, which search, which set tunes it, how fast it was."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from models import build
from orchestrator.decoding import validation_bleu
from orchestrator.decoding.beam import Hypothesis
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.statistics import unpack
from orchestrator.specs.schema import DecodeSpec, ScoreSpec
from orchestrator.sweeps import row
from orchestrator.sweeps.task import Scoring
from orchestrator.training.batches import UpdateLoader
from orchestrator.training.runtime import Runtime
from orchestrator.training.trainer import Trainer
from tests.unit.training.support import KEY, SPEC, changed

SIZES = SimpleNamespace(src_size=30, tgt_size=30)


def test_a_row_is_decoded_from_the_weights_that_it_names(tmp_path):
    """last, best, or the mean of the snapshots, which are others than both."""
    store = Store(tmp_path, KEY)
    shapes = {name: p.shape for name, p in build(SPEC.model.model_dump(), 30, 30, 1).named_parameters()}

    def filled(value):
        return {name: torch.full(shape, value) for name, shape in shapes.items()}

    store.save_weights("last", filled(7.0), {})
    store.save_weights("best", filled(2.0), {})
    for step, value in ((1, 50.0), (2, 1.0), (3, 3.0), (4, 5.5)):
        store.save_snapshot(step, filled(value), 3)
    for choice, value in (("last", 7.0), ("best", 2.0), ("average", (1.0 + 3.0 + 5.5) / 3)):
        model = row.load_model(changed(decode={"checkpoint": choice}), SIZES, store, torch.device("cpu"))
        assert all(float(p.detach().flatten()[0]) == pytest.approx(value) for p in model.parameters()), choice
        assert not model.training


class Text:
    """A corpus whose splits differ; ids are lengths of words."""

    def sources(self, split):
        return [f"{split} one", f"{split} two", f"{split} three"]

    def references(self, split):
        return [self.sources(split)]

    def encode(self, lines, side="src"):
        return [[len(word) for word in line.split()] for line in lines]

    def decode(self, outputs):
        return [" ".join(map(str, ids)) for ids in outputs]

    decode_tokens = decode


class Books:
    """A ledger that keeps what it is given."""

    def __init__(self):
        self.decoded, self.texts, self.tunes = {}, [], {}

    def write_decode(self, train_key, key, record, hypotheses):
        self.decoded, self.texts = record, hypotheses

    def read_tune(self, train_key, key):
        return self.tunes.get(key)

    def write_tune(self, train_key, key, record):
        self.tunes[key] = record


def searched(monkeypatch, module, outputs):
    """The sources and settings that `module` decodes with; outputs: of a search, by its settings."""
    calls = []

    def decode_corpus(model, ids, decode):
        calls.append((ids, decode))
        return [[Hypothesis(list(y), 0.0, 0.0)] for y in outputs(decode)]

    monkeypatch.setattr(module, "decode_corpus", decode_corpus)
    return calls


def test_a_decoding_says_how_fast_it_was_and_searches_as_the_scoring_asks(monkeypatch):
    """3 sentences of 2, 4 and 6 words, an end for each: 15 tokens, in 6 seconds."""
    clock = itertools.count(100.0, 6.0)
    monkeypatch.setattr(row.time, "perf_counter", lambda: next(clock))
    calls = searched(monkeypatch, row, lambda decode: ([5, 5], [5] * 4, [5] * 6))
    task, books = SimpleNamespace(train_key="t", spec=changed(decode={"beam_size": 5})), Books()
    scoring = Scoring(ScoreSpec(test="other", beam_size=1), Keys(train="t", decode="d", score="s"))
    row._decode(task, build(SPEC.model.model_dump(), 30, 30, 1), Text(), books, scoring)
    assert (books.decoded["seconds"], books.decoded["sentences"]) == (6.0, 3)
    assert (books.decoded["sentences_per_second"], books.decoded["tokens_per_second"]) == (0.5, 2.5)
    ((ids, decode),) = calls
    assert ids == [[5, 3], [5, 3], [5, 5]] and decode.beam_size == 1
    assert books.texts == ["5 5", "5 5 5 5", "5 5 5 5 5 5"]
    assert unpack(books.decoded["nll"], 2)[:, 1].tolist() == [3, 3, 3], "two words and an end of each reference"


FIGURES = {0.0: 10.0, 0.5: 30.0, 1.0: 20.0}


def scored(monkeypatch, module):
    """Scores by the first word of the output, which says with what it was decoded; the splits scored."""
    splits = []

    def score(texts, tokens, prepared, split, spec):
        splits.append(split)
        return {"bleu": FIGURES[float(texts[0].split()[0])], "signature": "s"}

    monkeypatch.setattr(module, "score", score)
    return splits


def test_a_length_penalty_is_tuned_on_the_validation_set_alone(monkeypatch):
    """Whatever set the row is scored on; of three candidates the one in the middle does best."""
    calls, splits = (
        searched(monkeypatch, validation_bleu, lambda decode: [[decode.length_penalty.alpha]] * 3),
        scored(monkeypatch, validation_bleu),
    )
    search = DecodeSpec.model_validate({"length_penalty": {"alpha": "tuned", "candidates": list(FIGURES)}, "beam_size": 3})
    record = validation_bleu.tune(torch.nn.Linear(1, 1), Text(), search, ScoreSpec(test="test"))
    assert record["alpha"] == 0.5 and record["candidates"] == [{"alpha": a, "bleu": b} for a, b in FIGURES.items()]
    assert [ids for ids, _ in calls] == [Text().encode(Text().sources("valid"))] * 3 and splits == ["valid"] * 3
    assert [(decode.length_penalty.alpha, decode.beam_size) for _, decode in calls] == [(a, 3) for a in FIGURES]


def test_a_rung_is_judged_by_greedy_translations_of_the_validation_set(monkeypatch):
    calls, splits = searched(monkeypatch, validation_bleu, lambda decode: [[0.5]] * 3), scored(monkeypatch, validation_bleu)
    spec = changed(decode={"beam_size": 5, "precision": "bf16"}, score={"test": "test"})
    model = torch.nn.Linear(1, 1).train()
    assert validation_bleu.rung_bleu(spec, Text())(model) == {"valid/bleu": 30.0} and model.training
    ((ids, decode),) = calls
    assert ids == Text().encode(Text().sources("valid")) and splits == ["valid"]
    assert (decode.beam_size, decode.precision) == (1, "fp32")


def test_a_warm_start_trains_from_the_weights_that_its_row_decodes_from(tmp_path, monkeypatch):
    """A row that is decoded from its best weights starts from its parent's best."""
    seen = {}

    class Halted(Exception):
        pass

    def training(*_, init_weights, **options):
        seen.update(init_weights)
        raise Halted

    monkeypatch.setattr(row, "Trainer", training)
    parent = Store(tmp_path / ("cd" * 8), "cd" * 32)
    for name, value in (("last", 1.0), ("best", 2.0)):
        parent.save_weights(name, {"w": torch.full((2,), value)}, {})
    task = SimpleNamespace(
        spec=changed(decode={"checkpoint": "best"}), parent_key="cd" * 32, results=str(tmp_path), train_key=KEY, id="a", seed=1
    )
    task.keys, task.rung_bleu, task.rungs, task.run_dir = Keys(KEY, None, None), False, [], tmp_path / KEY[:16]
    with pytest.raises(Halted):
        list(row._train(task, Runtime(), SIZES, SimpleNamespace(write_spec=lambda *_: None, read_train=lambda *_: None), None, []))
    assert torch.equal(seen["w"], torch.full((2,), 2.0))


def test_a_worker_without_a_share_of_a_batch_adds_nothing(prepared, tmp_path):
    """It holds one sentence all the same; neither its gradients nor what it logs are of it."""
    spec = changed(model={"dropout": dict.fromkeys(("embedding", "residual", "attention", "ffn"), 0.0)}, batch={"accumulate": 2})
    found = []
    for idle in ([False, False], [False, True], None):
        training = Trainer(spec, Runtime(), [], prepared, Store(tmp_path, KEY))
        update = next(iter(UpdateLoader(prepared.pairs("train"), spec.batch, 1).updates(0, 0)))
        if idle is None:
            update = replace(update, micro_batches=update.micro_batches[:1], idle=[False])
        else:
            update = replace(update, idle=idle)
        sums = training.forward_backward(update)
        found.append(({name: float(value) for name, value in sums.items()}, [p.grad.clone() for p in training.model.parameters()]))
    both, idle, alone = found
    assert idle[0] == pytest.approx(alone[0]) and both[0]["nll"] > 1.5 * alone[0]["nll"]
    for one, two in zip(idle[1], alone[1], strict=True):
        torch.testing.assert_close(one, two)
