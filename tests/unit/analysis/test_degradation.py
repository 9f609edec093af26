"""BLEU on sampled training pairs and on the validation set, by update where there are snapshots; losses from the history."""

import pytest
import torch

from orchestrator.analysis.kinds import training
from orchestrator.analysis.kinds.training import degradation, sample
from orchestrator.decoding import validation_bleu
from orchestrator.decoding.beam import Hypothesis
from orchestrator.decoding.translate import translate_lines
from orchestrator.ledger.run_files import Store
from orchestrator.scoring.scores import score
from tests.unit.analysis.conftest import drawn
from tests.unit.conftest import refused
from tests.unit.history import append_history


@pytest.fixture(autouse=True)
def few(monkeypatch) -> None:
    monkeypatch.setattr(training, "PAIRS", 6)


def test_the_sample_is_fixed() -> None:
    assert sample(500) == sample(500) == sorted(set(sample(500))) and len(sample(500)) == 6 and max(sample(500)) < 500
    assert sample(5) == [0, 1, 2, 3, 4]


@pytest.fixture
def silent(monkeypatch) -> None:
    """Every translation is empty: a search takes long."""
    monkeypatch.setattr(validation_bleu, "decode_corpus", lambda model, ids, *given, **more: [Hypothesis([], 0.0, 0.0) for _ in ids])


@pytest.mark.usefixtures("silent")
def test_a_row_has_bleu_of_both_and_its_losses(own) -> None:
    append_history(own.ledger, own.subject("base").train_key, {"step": 4, "train/nll": 1.5, "valid/nll": 2.25})
    made = degradation(own.context("degradation", "base", "hier"))
    base, valid = [r for r in made.records if "base" in r["row"]], len(own.prepared.sources("valid"))
    found = [(r["measure"], r["data"], r["step"], r["sentences"] if r["measure"] == "bleu" else r["value"]) for r in base]
    assert found[:3] == [("bleu", "training", 4, 6), ("bleu", "validation", 4, valid), ("nll", "training", 4, 1.5)]
    assert found[3:] == [("nll", "validation", 2, 2.0), ("nll", "validation", 4, 2.25)]
    assert {r["layers"] for r in made.records} == {4}


def test_validation_bleu_is_that_of_the_rows_own_search_and_metric(own) -> None:
    context = own.context("degradation", "hier")
    subject = context.subjects[0]
    made = degradation(context)
    texts = translate_lines(context.model(subject), own.prepared, own.prepared.sources("valid"), subject.spec.decode)
    expected = score(texts, own.prepared.tokenise(texts, "tgt"), own.prepared, "valid", subject.spec.score)["bleu"]
    (value,) = (r["value"] for r in made.records if r["data"] == "validation" and r["measure"] == "bleu")
    assert value == pytest.approx(expected, abs=1e-3)


def test_a_model_that_knows_its_training_pairs_has_full_bleu(own, monkeypatch) -> None:
    """The references of training pairs are the pairs' own targets, in the order of the sources."""
    pairs = own.prepared.pairs("train")
    known = {tuple(source): target for source, target in (pairs[i] for i in range(len(pairs)))}

    def by_heart(model, ids, spec, **more):
        return [Hypothesis(known.get(tuple(source), []), 0.0, 0.0) for source in ids]

    monkeypatch.setattr(validation_bleu, "decode_corpus", by_heart)
    monkeypatch.setattr(training, "PAIRS", 30)
    made = degradation(own.context("degradation", "base"))
    bleu = {r["data"]: r["value"] for r in made.records if r["measure"] == "bleu"}
    assert bleu["training"] == pytest.approx(100.0) and bleu["validation"] < 50.0


@pytest.mark.usefixtures("silent")
def test_snapshots_give_points_of_a_curve(own) -> None:
    context = own.context("degradation", "base", options=["points=3"])
    subject = context.subjects[0]
    store = Store(own.ledger.run_dir(subject.train_key), subject.train_key)
    weights = dict(context.model(subject).named_parameters())
    for step in (1, 2, 3, 4):
        store.save_snapshot(step, {name: torch.zeros_like(w) if step < 4 else w for name, w in weights.items()}, 4)
    made = degradation(context)
    assert [r["step"] for r in made.records if r["measure"] == "bleu" and r["data"] == "training"] == [1, 3, 4]
    assert not any("snapshots" in note for note in made.notes)
    assert len(drawn(made).axes) == 4
    more = degradation(own.context("degradation", "hier", options=["points=3"]))
    assert any("hier: found 0 other snapshots for 3 points" in note for note in more.notes)


@pytest.mark.usefixtures("silent")
def test_more_pairs_than_there_are_and_bad_options(own, monkeypatch) -> None:
    monkeypatch.setattr(training, "PAIRS", 100000)
    made = degradation(own.context("degradation", "base"))
    (record,) = (r for r in made.records if r["measure"] == "bleu" and r["data"] == "training")
    assert record["sentences"] == len(own.prepared.pairs("train")) and any("all of which are taken" in note for note in made.notes)
    assert "--option of degradation: points: found 'x'" in refused(own.context, "degradation", "base", options=["points=x"])[0]
