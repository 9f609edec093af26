"""benchmarks/gpu: the campaign goes on after a part that fails; the speeds say where there is no device, and their path runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import campaign
import pytest
import speed
import torch


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict]:
    def run(*arguments: str) -> dict:
        monkeypatch.setattr("sys.argv", ["speed.py", "--json", *arguments])
        speed.main()
        return json.loads(capsys.readouterr().out)

    return run


def test_the_campaign_goes_on_after_parts_that_fail_and_does_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def part(name: str, code: str, minutes: float = 1.0) -> campaign.Part:
        return campaign.Part(name, [sys.executable, "-c", code], minutes)

    all_parts = [part("wrong", "raise SystemExit(3)"), part("late", "import time; time.sleep(60)", 0.01), part("right", "print('{}')")]
    monkeypatch.setattr(campaign, "parts", lambda args: all_parts)
    monkeypatch.setattr("sys.argv", ["campaign.py", "--out", str(tmp_path)])
    campaign.main()
    first = json.loads((tmp_path / "parts.json").read_text())
    assert {name: each["code"] for name, each in first.items()} == {"wrong": 3, "late": None, "right": 0}
    assert (tmp_path / "right.json").read_text() == "{}\n"
    monkeypatch.setattr("sys.argv", ["campaign.py", "--out", str(tmp_path), "--parts", "wrong", "right"])
    all_parts[0] = part("wrong", "pass")
    campaign.main()
    second = json.loads((tmp_path / "parts.json").read_text())
    assert second["wrong"]["code"] == 0 and second["right"] == first["right"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so_and_measures_nothing(measured):
    assert measured() == {"benchmark": "gpu", "not_measured": "no CUDA device"}


def test_the_path_runs_on_a_cpu(measured):
    few = ["--batch-tokens", "200", "--updates", "1", "--rounds", "1", "--batches", "4", "--length", "5", "--no-compile"]
    found = measured("--device", "cpu", "--size", "tiny", *few)
    rows = found["tiny"]["training"]["rows"]
    assert rows["ours"]["tokens_per_second"] > 0
    assert rows["ours, compiled"] == {"not_measured": "not measured: --no-compile"}
    assert [(line["batch"], line["precision"]) for line in found["tiny"]["decoding"]] == [(4, "fp32"), (4, "bf16")]
