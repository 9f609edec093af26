"""`analyse --kind inference-speed`: batch and beam as asked, rows in turns, tokens a second and the paper's ratio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.base import AnalysisContext
from orchestrator.analysis.files import write
from orchestrator.analysis.kinds import inference_speed
from orchestrator.errors import UserError

SMALL = ["rounds=2", "sentences=7", "batch=3", "device=cpu"]


@pytest.mark.slow
def test_records(own: Any, tmp_path: Path) -> None:
    context: AnalysisContext = own.context("inference-speed", "base", "hier", options=SMALL)
    rows = [replace(s, row=replace(s.row, expect={"decode_speed": paper})) for s, paper in zip(context.subjects, (1800, 1350), strict=True)]
    made = inference_speed.analyse(replace(context, subjects=rows))
    base, hier = made.records
    assert base["ratio"] == base["paper_ratio"] == 1.0 and (hier["paper"], hier["paper_ratio"]) == (1350, 0.75)
    for record in made.records:
        assert record["low"] <= record["tokens_per_second"] <= record["high"] and record["weights"] == "trained"
    assert "7 sentences in batches of 3, beam 5" in made.notes[0]
    assert set(write(made, context, tmp_path)) == {"json", "csv", "png", "svg", "pdf"}


def test_batch_and_beam_are_those_asked_for(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.decoding import translate

    seen: list[tuple[int, int]] = []
    real = translate.beam_search

    def search(model: Any, src: Any, decode: Any, nbest: int) -> Any:
        seen.append((len(src), decode.beam_size))
        return real(model, src, decode, nbest)

    monkeypatch.setattr(translate, "beam_search", search)
    inference_speed.analyse(own.context("inference-speed", "base", options=[*SMALL, "rounds=1", "beam=2"]))
    assert seen == [(3, 2), (3, 2), (1, 2)] * 2, "an untimed round and one that counts"


def test_the_order_of_work_and_the_rate(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def decode(self: inference_speed.Case) -> float:
        seen.append(self.subject.row.label)
        self.output_tokens = 100
        return 1.0 if self.subject.row.label == "baseline" else 2.0

    monkeypatch.setattr(inference_speed.Case, "decode", decode)
    made = inference_speed.analyse(own.context("inference-speed", "base", "hier", options=SMALL))
    assert seen == ["baseline", "hierarchical"] * 2 + ["hierarchical", "baseline"]
    assert [(r["tokens_per_second"], r["ratio"]) for r in made.records] == [(100.0, 1.0), (50.0, 0.5)]


def test_fresh_weights_make_all_outputs_as_long_as_their_sources(own: Any) -> None:
    made = inference_speed.analyse(own.context("inference-speed", "base", "later", options=SMALL))
    assert [record["weights"] for record in made.records] == ["trained", "fresh"]
    assert len({record["output_tokens"] for record in made.records}) == 1
    assert any("as long as its source" in note for note in made.notes)


def test_bad_options(own: Any) -> None:
    for option in ("batch=0", "beam=x", "clock=sun", "device=tpu"):
        with pytest.raises(UserError, match=f"--option {option.partition('=')[0]}"):
            inference_speed.analyse(own.context("inference-speed", "base", options=[option]))
