"""A sweep that meets its cap goes on under a larger one with the same bits; probes measure the real loop."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.sweeps import budget

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SPEC = """\
source: {paper: demo, table: cap}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}}
batch: {unit: tokens, size: 800}
model: {d_model: 64, d_ff: 128, num_heads: 2, norm: pre, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
train: {max_steps: 120, validate_every: 40, checkpoint_every: 40}
rows:
  plain: {}
  linear: {model: {encoder: {aggregation: {kind: linear}}}}
"""


def test_a_sweep_stops_at_its_cap_and_goes_on_with_the_same_bits(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "cap.yaml"
    path.write_text(SPEC)
    sweep = ("sweep", path, "--engine", "local", "--no-tracking", "--json", "--cache-dir", tmp_path / "c")
    whole = [json.loads(line) for line in cli(*sweep, "--results", tmp_path / "free")[1].splitlines()]
    needed, late = budget.used_seconds(tmp_path / "free", "demo-cap") / 3600, 1 / 3600  # a batch ends before a signal is handled
    for part in (2, 4, 8, 16):  # a machine that became faster since ends the runs before half of the time is over
        place, cap = ("--results", tmp_path / f"capped{part}"), needed / part
        code, _, err = cli(*sweep, *place, "--max-core-hours", f"{cap:.9f}")
        if code != 0:
            break
    assert code == 130 and "stopped at the cap" in err and "core-hours used" in err, err
    assert 0 < budget.used_seconds(place[1], "demo-cap") / 3600 <= cap + late
    code, _, err = cli(*sweep, *place, "--max-core-hours", f"{cap:.9f}")
    assert code == 130 and "stopped at the cap" in err and budget.used_seconds(place[1], "demo-cap") / 3600 <= cap + late
    records = [json.loads(line) for line in cli(*sweep, *place, "--max-core-hours", "9")[1].splitlines()]
    bits = [(record["id"], record["status"], record["weights_sha256"], record["bleu"]) for record in whole]
    assert [(record["id"], record["status"], record["weights_sha256"], record["bleu"]) for record in records] == bits


def test_a_probe_is_made_once(cli: Any, tmp_path: Path) -> None:
    places = ("--profile", "smoke", "--results", tmp_path / "r", "--cache-dir", tmp_path / "c")
    row, ours = "quickstart/fusion/dlcl", len(b"x" * (3 << 29))  # bytes that this process takes for a moment, and no probe
    _, out, err = cli("plan", row, *places, "--seeds", "1", "--probe", "--json")
    (planned,) = json.loads(out)["rows"]
    cost = planned["cost"]
    assert cost["basis"] == "probed" and cost["seconds"]["all"] > 0 and cost["device_hours"] > 0 and 10**7 < cost["memory_bytes"] < ours
    assert "probe 1 of 1" in err
    assert cli("run", row, *places, "--no-tracking")[0] == 0
    _, out, err = cli("plan", row, *places, "--seeds", "1", "--probe", "--json")
    assert "probe 1" not in err
    told = json.loads(out)
    assert told["rows"][0]["status"] == "done" and told["cost"]["left"]["trainings"] == 0
