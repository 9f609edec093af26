"""benchmarks/gpu.py: it says where there is no device, and its path runs."""

from __future__ import annotations

import json
from collections.abc import Callable

import gpu
import pytest
import torch


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict]:
    def run(*arguments: str) -> dict:
        monkeypatch.setattr("sys.argv", ["gpu.py", "--json", *arguments])
        gpu.main()
        return json.loads(capsys.readouterr().out)

    return run


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
