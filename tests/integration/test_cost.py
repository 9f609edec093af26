"""A sweep that meets its cap goes on under a larger one with the same bits; probes measure the real loop."""

import json
from pathlib import Path

import pytest

from orchestrator.sweeps import budget
from tests.integration.command import call

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


def test_a_sweep_stops_at_its_cap_and_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "cap.yaml"
    path.write_text(SPEC)
    sweep = ("sweep", path, "--engine", "local", "--no-tracking", "--json", "--cache-dir", tmp_path / "c")
    whole = [json.loads(line) for line in call(*sweep, "--results", tmp_path / "free").stdout.splitlines()]
    needed = budget.used_seconds(tmp_path / "free", "demo-cap") / 3600
    for part in (2, 4, 8, 16):  # a machine that became faster since ends the runs before half of the time is over
        place, cap = ("--results", tmp_path / f"capped{part}"), needed / part
        stopped = call(*sweep, *place, "--max-core-hours", f"{cap:.9f}", code=None)
        if stopped.returncode != 0:
            break
    assert stopped.returncode == 130, stopped.stderr[-3000:]
    assert "stopped at the cap" in stopped.stderr and "core-hours used" in stopped.stderr
    first = budget.used_seconds(place[1], "demo-cap") / 3600
    assert 0 < first <= cap
    again = call(*sweep, *place, "--max-core-hours", f"{cap:.9f}", code=130)
    assert "stopped at the cap" in again.stderr and budget.used_seconds(place[1], "demo-cap") / 3600 <= cap
    records = [json.loads(line) for line in call(*sweep, *place, "--max-core-hours", "9").stdout.splitlines()]
    bits = [(record["id"], record["status"], record["weights_sha256"], record["bleu"]) for record in whole]
    assert [(record["id"], record["status"], record["weights_sha256"], record["bleu"]) for record in records] == bits


def test_a_probe_is_made_once(tmp_path: Path) -> None:
    places = ("--profile", "smoke", "--results", tmp_path / "r", "--cache-dir", tmp_path / "c")
    row = "quickstart/fusion/dlcl"
    first = call("plan", row, *places, "--seeds", "1", "--probe", "--json")
    (planned,) = json.loads(first.stdout)["rows"]
    cost = planned["cost"]
    assert cost["basis"] == "probed" and cost["seconds"]["all"] > 0 and cost["device_hours"] > 0 and cost["memory_bytes"] > 10**7
    assert "probe 1 of 1" in first.stderr
    call("run", row, *places, "--no-tracking")
    second = call("plan", row, *places, "--seeds", "1", "--probe", "--json")
    assert "probe 1" not in second.stderr
    told = json.loads(second.stdout)
    assert told["rows"][0]["status"] == "done" and told["cost"]["left"]["trainings"] == 0
