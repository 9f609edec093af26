"""From a training whose rate is cut to its loss curves: the analysis finds the cut where the training made it."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TABLE = """\
source: {paper: demo, table: curves}
analysis: loss-curves
data: {corpus: toy-smoke, subword: {kind: word, size: 200, joint: false}}
batch: {unit: sentences, size: 32}
model: {d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
optim: {kind: nag, momentum: 0.9, schedule: {kind: plateau, lr: 1.0, shrink: 0.1, min_lr: 0.01, cut: after_first_rise}, clip_norm: 0.1}
train: {max_epochs: 30, validate_every: epoch, checkpoint_every: epoch}
decode: {beam_size: 1}
rows:
  base: {label: baseline}
  wide: {label: wide, model: {d_ff: 64}}
"""


def test_cuts_epochs_and_ends_are_those_of_the_training(cli: Any, tmp_path: Path) -> None:
    table = tmp_path / "curves.yaml"
    table.write_text(TABLE)
    places = ["--results", tmp_path / "results", "--cache-dir", tmp_path / "cache", "--no-tracking", "--json"]
    assert cli("sweep", table, "--engine", "local", *places)[0] == 0
    made = json.loads(cli("analyse", table, "--out", tmp_path / "out", *places)[1])
    kept = json.loads((tmp_path / "out" / "loss-curves.json").read_text())
    for subject in kept["subjects"]:
        record = json.loads((tmp_path / "results" / subject["keys"]["train"][:16] / "train.json").read_text())
        own = {r["measure"]: r["value"] for r in made["records"] if r["row"] == subject["id"] and r["measure"] != "nll"}
        steps = {r["measure"]: r.get("step") for r in made["records"] if r["row"] == subject["id"] and r["measure"] != "nll"}
        cut = record["rate_cuts"][0]
        assert (steps["epochs_to_first_cut"], own["epochs_to_first_cut"]) == (cut["step"], cut["epoch"])
        assert record["ended_by"] == "min_lr" and (steps["epochs_to_end"], own["epochs_to_end"]) == (record["steps"], record["epochs"])
        assert own["best_valid_nll"] == pytest.approx(record["valid"]["best_nll"], abs=1e-5)
        marked = [r for r in made["records"] if r["row"] == subject["id"] and r.get("data") == "validation" and r["note"] == "first cut"]
        assert [r["step"] for r in marked] == [cut["step"]] and len(made["records"]) > record["epochs"]
    early = json.loads(cli("analyse", table, "--option", "until=first-cut", "--out", tmp_path / "early", *places)[1])
    assert len(early["records"]) < len(made["records"])
    assert sorted(path.suffix for path in (tmp_path / "early").iterdir()) == [".csv", ".json", ".pdf", ".png", ".svg"]
