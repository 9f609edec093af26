"""benchmarks/gpu.py: it says where there is no device, and its path runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "gpu.py"


def _run(*arguments: str) -> dict:
    done = subprocess.run([sys.executable, str(SCRIPT), "--json", *arguments], capture_output=True, text=True, check=True, timeout=100)
    return json.loads(done.stdout)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so_and_measures_nothing():
    assert _run() == {"benchmark": "gpu", "not_measured": "no CUDA device"}


def test_the_path_runs_on_a_cpu():
    few = ["--batch-tokens", "200", "--updates", "1", "--rounds", "1", "--batches", "4", "--length", "5", "--no-compile"]
    found = _run("--device", "cpu", "--size", "tiny", *few)
    rows = found["tiny"]["training"]["rows"]
    assert rows["ours"]["tokens_per_second"] > 0
    assert rows["ours, compiled"] == {"not_measured": "not measured: --no-compile"}
    assert [(line["batch"], line["precision"]) for line in found["tiny"]["decoding"]] == [(4, "fp32"), (4, "bf16")]
