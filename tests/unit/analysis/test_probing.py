"""Probing: frozen vectors, the gate, the classifier's protocol, and the analysis on small files whose labels can, or cannot, be learnt."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from models.site import Memory
from orchestrator.analysis import classifier
from orchestrator.analysis.classifier import ClassifierSetting, Examples, Fitted, Probe, fit, search, share
from orchestrator.analysis.kinds import probing
from orchestrator.analysis.kinds.probing import analyse, classify, features
from orchestrator.cli.commands.analyse import _table
from orchestrator.data import toy
from orchestrator.data.senteval import TASKS
from orchestrator.errors import UserError
from orchestrator.specs.corpora import ToyParams


class Second(nn.Module):
    """An extra encoder of three slots, the last one not valid for every other sentence; width 2d."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, 2 * d_model)

    def forward(self, words: torch.Tensor, h_0: torch.Tensor, flow) -> Memory:
        keys = self.linear(words[:, :1]).repeat(1, 3, 1) * torch.tensor([1.0, 2.0, 30.0])[:, None]
        mask = torch.ones(len(words), 3, dtype=torch.bool)
        mask[::2, 2] = False
        return Memory(keys, mask, torch.zeros(len(words), 1, 1, 3))


@pytest.fixture
def model(lab):
    context = lab.context("probing", "base")
    return context.model(context.subjects[0])


@pytest.fixture
def ids(lab) -> list[list[int]]:
    return list(lab.prepared.encode(lab.prepared.sources("test")))


def blobs(count: int, classes: int = 3, *, seed: int = 1, spread: float = 0.5) -> Examples:
    """Vectors around a centre of their class."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, 8, generator=torch.Generator().manual_seed(9))
    m_e = centres[labels] + spread * torch.randn(count, 8, generator=draw)
    return m_e, labels


def test_vectors_of_a_batch_are_those_of_the_sentences_alone(model, ids: list[list[int]]) -> None:
    found, width = features(model, ids)
    assert found.shape == (len(ids), 16) and width == 16 and not found.requires_grad
    for i in (0, 7, 39):
        assert torch.allclose(features(model, [ids[i]])[0][0], found[i], atol=1e-5)
        with torch.no_grad():
            top = model.encode(torch.tensor([[*ids[i], 3]])).memories[0][0].keys[0]
        assert torch.allclose(top.mean(0), found[i], atol=1e-5), "EOS is a position too"


def test_a_second_encoder_gives_a_second_vector(model, ids: list[list[int]]) -> None:
    model.extra_encoder = Second(16)
    found, width = features(model, ids[:1])
    assert (found.shape, width) == ((1, 48), 16)
    with torch.no_grad():
        one = model.extra_encoder.linear(model.src_embedding.scaled(torch.tensor([[*ids[0], 3]])))[0, 0]
    assert torch.allclose(found[0, 16:], 1.5 * one, atol=1e-5), "mean over the two valid slots"


def test_gate_is_its_equation() -> None:
    torch.manual_seed(1)
    probe, m_e, m_r = Probe(4, 6, 2, 0, 0.0), torch.randn(3, 4), torch.randn(3, 6)
    both = torch.cat([m_e, m_r], -1)
    g = torch.sigmoid(both @ probe.gate.weight.T)
    assert torch.allclose(probe(both), probe.head(g * m_e + (1 - g) * (m_r @ probe.project.weight.T)))


def test_linear_classifier_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    train, valid, test = (blobs(900, seed=seed, spread=2.0) for seed in (1, 2, 3))
    ours = fit(train, valid, 8, 3, ClassifierSetting(0, 0.0, 1e-5), 1)
    theirs = LogisticRegression(max_iter=1000).fit(train[0].numpy(), train[1].numpy())
    score = theirs.score(test[0].numpy(), test[1].numpy())
    assert share(ours.probe, test) == pytest.approx(score, abs=0.03) and 0.5 < score < 0.9
    assert isinstance(ours.probe.head, nn.Linear)


def test_training_ends_as_in_the_toolkit(monkeypatch) -> None:
    """At the sixth time without a better accuracy (they need not follow each other), or at the first look after more than 200 epochs."""
    seen = iter([0.1, 0.2, 0.2, 0.1, 0.3, 0.1, 0.1, 0.1, 0.3, 1.0])
    monkeypatch.setattr(classifier, "share", lambda probe, data: next(seen))
    fitted = fit(blobs(64), blobs(9), 8, 3, ClassifierSetting(0, 0.0, 1e-5), 1)
    assert (fitted.epochs, fitted.valid) == (4 * 9, 0.3)
    rising = iter(range(1000))
    monkeypatch.setattr(classifier, "share", lambda probe, data: next(rising))
    assert fit(blobs(64), blobs(9), 8, 3, ClassifierSetting(0, 0.0, 1e-5), 1).epochs == 204


def test_the_best_state_counts_not_the_last(monkeypatch) -> None:
    states = []

    def look(probe: Probe, data: Examples) -> float:
        states.append({name: value.clone() for name, value in probe.state_dict().items()})
        return 0.5 if len(states) == 2 else 0.1

    monkeypatch.setattr(classifier, "share", look)
    fitted = fit(blobs(64), blobs(9), 8, 3, ClassifierSetting(0, 0.0, 1e-5), 1)
    assert len(states) > 3 and all(torch.equal(value, states[1][name]) for name, value in fitted.probe.state_dict().items())


def test_search_first_units_and_dropout_then_decay() -> None:
    tried: list[ClassifierSetting] = []

    def fake(setting: ClassifierSetting) -> Fitted:
        tried.append(setting)
        good = (setting.nhid == 100) + (setting.dropout == 0.1) + (setting.l2 == 1e-3)
        return Fitted(Probe(8, 0, 3, setting.nhid, 0.0), setting, float(good), 4)

    space = {"nhid": [50, 100, 200], "dropout": [0.0, 0.1, 0.2], "l2": [1e-5, 1e-4, 1e-3, 1e-2]}
    assert search(fake, **space).setting == ClassifierSetting(100, 0.1, 1e-3)
    assert len(tried) == 9 + 3 and {setting.l2 for setting in tried[:9]} == {1e-5}
    tried.clear()
    search(fake, **space | {"nhid": [0]})
    assert [setting.nhid for setting in tried] == [0] * 4, "linear"


@pytest.mark.parametrize(("valid", "count"), [(199, 1), (200, 3)])
def test_few_validation_sentences_choose_nothing(valid: int, count: int, monkeypatch) -> None:
    tried: list[ClassifierSetting] = []
    monkeypatch.setattr(probing, "fit", lambda *given: tried.append(given[4]) or fit(*given))
    data = {"tr": blobs(64), "va": blobs(valid, seed=2), "te": blobs(9, seed=3)}
    made = classify(data, 8, 3, {"nhid": [0], "dropout": [0.0], "l2": [1e-5, 1e-4, 1e-3]})
    assert len(tried) == count and tried[0] == ClassifierSetting(0, 0.0, 1e-5) and made["classes"] == 3 and made["valid"] == valid


def written(lab, folder: Path, name: str, label, lines: list[str] | None = None) -> None:
    """A file of one task: 70, 10 and 20 percent of the sentences (of the corpus), labelled by a function of the sentence."""
    lines = lines or [source for split in ("valid", "test") for source in lab.prepared.sources(split)]
    splits = ["tr"] * (7 * len(lines) // 10) + ["va"] * (len(lines) // 10)
    splits += ["te"] * (len(lines) - len(splits))
    (folder / TASKS[name].file).write_text("".join(f"{s}\t{label(line)}\t{line}\n" for s, line in zip(splits, lines, strict=True)))


def test_a_label_that_is_a_function_of_the_sentence_is_learnt_and_a_random_one_is_not(lab, tmp_path, monkeypatch) -> None:
    drawn = toy.generate(ToyParams(seed=1, vocabulary=60, train=5000, valid=1, test=1))["train"]
    texts = list(dict.fromkeys(source for source, _ in drawn))
    short, long = ([line for line in texts if of(len(line.split()))][:500] for of in (lambda n: n <= 5, lambda n: n >= 13))
    lines = [line for pair in zip(short, long, strict=True) for line in pair]
    toss = random.Random(1)
    written(lab, tmp_path, "Length", lambda line: "long" if len(line.split()) > 9 else "short", lines)
    written(lab, tmp_path, "Tense", lambda line: toss.choice(["PRES", "PAST"]), lines)
    options = [f"data={tmp_path}"]
    monkeypatch.setattr(probing, "TASKS", {name: TASKS[name] for name in ("Length", "Tense")})
    made = analyse(lab.context("probing", "base", options=options))
    length, tense = made.records
    assert (length["task"], tense["task"]) == ("Length", "Tense"), "in the paper's order"
    assert length["accuracy"] > length["majority"] + 20 and length["accuracy"] > 85
    assert tense["accuracy"] < 60
    assert (length["train"], length["valid"], length["test"], length["classes"]) == (700, 100, 200, 2)
    assert made.records == analyse(lab.context("probing", "base", options=options)).records


def test_papers_figures_stand_beside_ours(lab, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(probing, "TASKS", {"Length": TASKS["Length"]})
    written(lab, tmp_path, "Length", lambda line: str(len(line.split()) > 7))
    asked = replace(lab.rows["base"], id="demo/small/probed", spec=None, kind="analysis", expect={"SeLen": 92.2, "WC": 63.0})
    context = lab.context("probing", "base", options=[f"data={tmp_path}"])
    context.subjects[0] = lab.subject("base", asked)
    made = analyse(context)
    (record,) = made.records
    assert [column.header for column in _table(made, "").columns][3:5] == ["paper", "to paper"]
    assert record["paper"] == 92.2 and record["delta"] == round(record["accuracy"] - 92.2, 4)
    assert made.summary[-1].split() == ["paper", "92.20"]


def test_a_row_whose_source_is_another_language_is_left_out(lab) -> None:
    spec = lab.rows["base"].spec
    german = spec.model_copy(update={"data": spec.data.model_copy(update={"corpus": "multi30k-de-en"})})
    context = lab.context("probing", "base")
    context.subjects[0] = replace(context.subjects[0], row=replace(lab.rows["base"], spec=german))
    with pytest.raises(UserError, match="demo/small/base: its source language is de, SentEval's is en; left out"):
        analyse(context)


def test_a_folder_that_is_not_there_is_one_line(lab) -> None:
    with pytest.raises(UserError, match=r"^--option data=/nowhere: no such folder.*$"):
        analyse(lab.context("probing", "base", options=["data=/nowhere"]))
