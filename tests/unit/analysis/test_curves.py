"""BLEU by hops and by recurrent steps, accuracy by update, gradient norms."""

from dataclasses import replace

import pytest

from orchestrator.analysis.kinds.option_curves import HOPS, STEPS
from orchestrator.analysis.kinds.training import accuracy, gradient_norms
from orchestrator.specs.schema import ScoreSpec
from orchestrator.training.metrics import SAMPLES, HistoryReporter
from tests.unit.analysis.conftest import drawn

OVER_SENTENCES = ["an interval over sentences does not say what other seeds would give"]


def test_bleu_by_hops(lab) -> None:
    made = HOPS.analyse(lab.context("hops", "hop3", "hop1", "base"))
    assert [(r["row"].rpartition("/")[2], r["hops"], r["sides"]) for r in made.records] == [
        ("base", None, None),
        ("hop1", 1, "decoder"),
        ("hop3", 3, "decoder"),
    ]
    bleu = {r["hops"]: r["bleu"] for r in made.records}
    assert bleu[1] == 100.0 and bleu[3] < 100.0 and made.notes == OVER_SENTENCES


def test_other_figures_and_their_means(lab) -> None:
    """`also` is another scoring of the same training; a mean needs all of its parts."""
    row = replace(
        lab.rows["hop1"], also={"cased": ScoreSpec(metric="multi-bleu")}, means={"both": ["bleu", "cased"], "none": ["bleu", "gone"]}
    )
    context = lab.context("hops", "base")
    context.subjects[0] = lab.subject(row)
    made = HOPS.analyse(context)
    assert {r["figure"]: r["bleu"] for r in made.records} == {"test": 100.0, "cased": 100.0, "both": 100.0}
    assert "demo/small/hop1 seed 1: no figure of none; run the row again" in made.notes


def test_accuracy_by_update_in_percent(lab) -> None:
    made = accuracy(lab.context("accuracy", "base"))
    points = [(r["data"], r["step"], r["accuracy"]) for r in made.records]
    assert points == [("training", 2, 12.5), ("training", 4, 25.0), ("validation", 2, 25.0), ("validation", 4, 50.0)]


RECURRENT = """\
source: {paper: demo, table: recurrent}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
train: {max_steps: 4, validate_every: 2, checkpoint_every: 2}
score: {metric: multi-bleu}
analysis: steps
rows:
  base: {label: baseline}
  TJ: {label: as many as words, model: {extra_encoder: {kind: biarn, steps: J},
    bridge: {kind: extra}, decoder: {cross_attention: {kind: stacked}}}}
  T1: {label: one step, model: {extra_encoder: {kind: biarn, num_layers: 1, steps: 1},
    bridge: {kind: extra}, decoder: {cross_attention: {kind: stacked}}}}
  T8: {label: eight steps, model: {extra_encoder: {kind: biarn},
    bridge: {kind: extra}, decoder: {cross_attention: {kind: stacked}}}}
  T2x3: {label: two steps in three layers, model: {extra_encoder: {kind: biarn, num_layers: 3, steps: 2},
    bridge: {kind: extra}, decoder: {cross_attention: {kind: stacked}}}}
"""


def test_bleu_by_steps(lab, tmp_path) -> None:
    recurrent = type(lab)(tmp_path, RECURRENT)
    recurrent.finish("base", spoil=lambda source: len(source.split()) > 6)
    recurrent.finish("T8")
    for name in ("T1", "TJ", "T2x3"):
        recurrent.finish(name, spoil=lambda source: len(source.split()) > 9)
    made = STEPS.analyse(recurrent.context("steps", "TJ", "T8", "T1", "T2x3", "base"))
    assert [(r["layers"], r["steps"]) for r in made.records] == [(None, None), (1, 1), (1, 8), (1, "J"), (3, 2)]
    assert [r["bleu"] == 100.0 for r in made.records] == [False, False, True, False, False]
    assert made.notes == OVER_SENTENCES
    (axes,) = (figure := drawn(made)).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "8", "J"]
    (dashed,) = [line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_ydata())]
    assert list(dashed.get_ydata()) == [made.records[0]["bleu"]] * 2
    one, three = [container.lines[0] for container in axes.containers]
    moved = 0.012 * (14 - 1) / 2  # bars of two lines do not cover each other
    assert list(one.get_xdata()) == pytest.approx([1 - moved, 8 - moved, 14 - moved])
    assert list(three.get_xdata()) == pytest.approx([2 + moved])
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == [f"baseline: {made.records[0]['bleu']:.2f}", "layers: 1"]


def test_norms_have_a_record_for_each_layer_and_update(own) -> None:
    samples = [[10, [0.5, 0.25, 0.125, 2.0]], [20, [0.75, 0.25, 0.125, 1.0]], [30, [9.0, 9.0, 9.0, 9.0]]]
    folder = own.ledger.run_dir(own.subject("base").train_key)
    HistoryReporter(folder / "history.jsonl")({"step": 50, SAMPLES: samples})
    context = own.context("gradient-norms", "base", "hier", options=["steps=20"])
    made = gradient_norms(context)
    assert [(r["layer"], r["step"], r["norm"]) for r in made.records][:3] == [(1, 10, 0.5), (1, 20, 0.75), (2, 10, 0.25)]
    assert len(made.records) == 8
    assert [line.split() for line in made.summary][3:] == [["1", "0.625"], ["2", "0.25"], ["3", "0.125"], ["4", "1.5"]]
    assert any("hier" in note and "train.log_gradient_norms" in note for note in made.notes)
    assert len(drawn(made).axes[0].lines) == 4
