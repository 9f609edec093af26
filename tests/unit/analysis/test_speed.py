"""`analyse --kind speed`: rows in turns, equal outputs without trained weights, the paper's ratios, the file for tables."""

import json
from dataclasses import replace

import pytest
import torch

from orchestrator.analysis.base import AnalysisContext
from orchestrator.analysis.kinds import speed
from orchestrator.decoding import translate
from orchestrator.ledger.results import Ledger
from orchestrator.report.figures import ratios
from orchestrator.specs.rows import resolve

SMALL = ["rounds=2", "steps=1", "sentences=4"]


def test_records_and_the_file_that_tables_find(own) -> None:
    made = speed.analyse(own.context("speed", "base", "hier", options=SMALL))
    base, hier = made.records
    assert (base["weights"], hier["weights"]) == ("trained", "trained")
    assert base["train_ratio"] == base["decode_ratio"] == 1.0
    assert hier["train_low"] <= hier["train_ratio"] <= hier["train_high"] and hier["decode_ratio"] > 0
    (path,) = (own.ledger.root / "speed").glob("*[!k].json")
    kept = json.loads(path.read_text())
    assert (kept["rounds"], kept["steps"], kept["sentences"]) == (2, 1, 4) and kept["key"].startswith(path.stem)
    assert [len(row["train_speed"]) for row in kept["rows"]] == [2, 2]
    keys = {name: [own.subject(name).keys] for name in ("base", "hier", "iter")}
    found, document = ratios(Ledger(own.results / "none", [own.results]), keys, "base")
    assert set(found) == {"base", "hier"} and found["base"] == {"train_speed": 1.0, "decode_speed": 1.0}
    hier = {f"{name}_speed": made.records[1][f"{name}_ratio"] for name in ("train", "decode")}
    assert found["hier"] == pytest.approx(hier, abs=2e-4)
    assert document is not None and ratios(own.ledger, keys, "iter") == ({}, None)
    own.rows |= {row.id.rpartition("/")[2]: row for row in resolve(own.file, sets=["decode.beam_size=2"])}
    keys = {name: [own.subject(name).keys] for name in keys}
    assert [*ratios(own.ledger, keys, "base")[0]["hier"]] == ["train_speed"], "the search was another"
    speed.analyse(own.context("speed", "base", "hier", options=SMALL))
    assert "decode_speed" in ratios(own.ledger, keys, "base")[0]["hier"] and len(list(path.parent.glob("*[!k].json"))) == 2


def test_the_order_of_work(own, monkeypatch) -> None:
    seen: list[tuple[str, str]] = []

    def train(self: speed.Case) -> float:
        seen.append(("train", self.subject.row.label))
        assert len(self.updates) == 1
        return 1.0 if self.subject.row.label == "baseline" else 3.0

    def decode(self: speed.Case) -> float:
        seen.append(("decode", self.subject.row.label))
        return 1.0

    monkeypatch.setattr(speed.Case, "train", train)
    monkeypatch.setattr(speed.Case, "decode", decode)
    made = speed.analyse(own.context("speed", "base", "hier", options=SMALL))
    turn = [("train", "baseline"), ("train", "hierarchical"), ("decode", "baseline"), ("decode", "hierarchical")]
    back = [turn[1], turn[0], turn[3], turn[2]]
    assert seen == turn + turn + back, "one untimed turn, then A, B, B, A"
    assert [made.records[1][f"train_{name}"] for name in ("low", "ratio", "high")] == [1 / 3] * 3, "the median is within its range"
    assert made.records[1]["decode_sentences_per_second"] == 4.0
    kept = list((own.results / "speed").glob("*[!k].json"))
    speed.analyse(own.context("speed", "base", "hier", options=["rounds=1", "steps=1", "sentences=2"]))
    assert list((own.results / "speed").glob("*[!k].json")) == kept, "the same rows again replace the measurement"


def test_the_batch_is_the_one_asked_for(own, monkeypatch) -> None:
    seen: list[tuple[int, int]] = []
    real = translate.beam_search

    def search(model, src, decode):
        seen.append((len(src), decode.beam_size))
        return real(model, src, decode)

    monkeypatch.setattr(translate, "beam_search", search)
    made = speed.analyse(own.context("speed", "base", options=["rounds=1", "steps=1", "sentences=7", "batch=3"]))
    assert seen == [(3, 4), (3, 4), (1, 4)] * 2, "an untimed round and one that counts"
    (record,) = made.records
    per_sentence = record["output_tokens"] / 7
    assert record["decode_tokens_per_second"] == pytest.approx(record["decode_sentences_per_second"] * per_sentence, rel=1e-3)


def test_fresh_weights_make_all_outputs_as_long_as_their_sources(own) -> None:
    made = speed.analyse(own.context("speed", "base", "later", options=SMALL))
    assert [record["weights"] for record in made.records] == ["trained", "fresh"]
    lengths = [len(ids) + 1 for ids in own.prepared.encode(own.prepared.sources("test")[::10][:4])]
    assert {record["output_tokens"] for record in made.records} == {sum(lengths)}
    assert any("as long as its source" in note for note in made.notes)


def test_training_steps_leave_the_weights(own) -> None:
    context: AnalysisContext = own.context("speed", "hier", options=SMALL)
    cases = [speed.make_case(context, subject, "wall") for subject in context.subjects]
    forced = speed.measure(cases, 1)
    fresh = context.model(context.subjects[0])
    assert not forced and all(torch.equal(a, b) for a, b in zip(cases[0].model.parameters(), fresh.parameters(), strict=True))
    assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in cases[0].model.parameters()), "and yet they are steps"


def test_the_papers_ratios(own) -> None:
    base, hier = (own.subject(name) for name in ("base", "hier"))
    asked = replace(own.rows["base"], kind="analysis", spec=None, expect={"a": 2.6, "b": 2.4}, of=[base.row.id, hier.row.id])
    assert [speed.paper_speed(replace(s, analysis_row=asked), "train_speed") for s in (base, hier)] == [2.6, 2.4]
    assert speed.paper_speed(replace(base, analysis_row=asked), "decode_speed") is None
    own_row = replace(hier.row, expect={"train_speed": 1.69})
    assert speed.paper_speed(replace(hier, row=own_row), "train_speed") == 1.69
