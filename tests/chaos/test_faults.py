"""SIGKILL at every step of writing, then the same command: nothing is lost, little is redone, the bits are the same."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from orchestrator.paths import ROOT
from tests.tiny import tiny

pytestmark = pytest.mark.chaos

SPEC = tiny("""
source: {paper: chaos, table: tiny}
train: {max_steps: 40, validate_every: 20, checkpoint_every: 10, snapshots: 2}
decode: {beam_size: 2}
rows:
  one: {}
""")
STEPS, INTERVAL = 40, 10
POINTS = ["step@17", "ckpt_pre_rename@20", "history_post_append@20", "snapshot_pre_rename@20", "weights_post_rename", "train_pre_rename"]
POINTS += ["score_pre_rename"]
"""One of each kind of file; tests/unit/ledger takes every point of writing a checkpoint or a record."""


def command(spec: Path, results: Path, cache: Path) -> list[str]:
    places = ["--results", str(results), "--cache-dir", str(cache)]
    return [sys.executable, "-m", "orchestrator", "run", str(spec), *places, "--no-tracking", "--json"]


def run(spec: Path, results: Path, cache: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NMT_FAULT": fault}
    return subprocess.run(command(spec, results, cache), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def start(spec: Path, results: Path, cache: Path, fault: str) -> subprocess.Popen[str]:
    """A run whose training has begun."""
    slow = os.environ | {"NMT_FAULT": fault}
    process = subprocess.Popen(command(spec, results, cache), cwd=ROOT, env=slow, stdout=PIPE, stderr=PIPE, text=True)
    while not any(path.stat().st_size > 0 for path in results.glob("*/journal.jsonl")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    return process


def result(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def executed(results: Path) -> int:
    (journal,) = results.glob("*/journal.jsonl")
    return sum(1 for line in journal.read_text().splitlines() if line.startswith("{") and line.endswith("}"))


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    base = tmp_path_factory.mktemp("golden")
    spec = base / "tiny.yaml"
    spec.write_text(SPEC)
    cache = base / "cache"
    return spec, cache, result(run(spec, base / "results", cache))


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_called_again(golden, tmp_path, point):
    spec, cache, want = golden
    results = tmp_path / "results"
    killed = run(spec, results, cache, f"{point}:kill")
    assert killed.returncode == -signal.SIGKILL, f"{point} was not reached: {killed.stderr[-500:]}"
    got = result(run(spec, results, cache))
    assert (got["weights_sha256"], got["bleu"]) == (want["weights_sha256"], want["bleu"])
    assert executed(results) <= STEPS + INTERVAL
    assert not list(results.rglob("*tmp*"))


def test_a_damaged_checkpoint_is_passed_over_and_said(golden, tmp_path):
    spec, cache, want = golden
    results = tmp_path / "results"
    run(spec, results, cache, "step@35:kill")
    newest = max(results.glob("*/ckpt/step-*"))
    file = newest / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    done = run(spec, results, cache)
    assert result(done)["weights_sha256"] == want["weights_sha256"]
    assert newest.name in done.stderr
    assert executed(results) <= STEPS + 2 * INTERVAL + INTERVAL


def test_nan_is_diverged_exit_1_and_not_tried_again(golden, tmp_path):
    _, cache, _ = golden
    spec = tmp_path / "diverging.yaml"
    spec.write_text(SPEC.replace("lr: 3.0e-3", "lr: 1.0e+38"))
    done = run(spec, tmp_path / "results", cache)
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["status"] == "diverged"
    again = run(spec, tmp_path / "results", cache)
    assert again.returncode == 1 and json.loads(again.stdout)["status"] == "diverged"
    assert executed(tmp_path / "results") <= 7


def test_two_drivers_at_once_one_is_refused(golden, tmp_path):
    spec, cache, want = golden
    results = tmp_path / "results"
    first = start(spec, results, cache, "step@20:sleep8")
    second = run(spec, results, cache)
    assert second.returncode == 3
    assert str(first.pid) in second.stderr
    out, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert json.loads(out)["weights_sha256"] == want["weights_sha256"]
    assert executed(results) == STEPS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_and_no_step_is_redone(golden, tmp_path, number):
    spec, cache, want = golden
    results = tmp_path / "results"
    process = start(spec, results, cache, "step@15:sleep3")
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert 0 < executed(results) < STEPS
    assert result(run(spec, results, cache))["weights_sha256"] == want["weights_sha256"]
    assert executed(results) == STEPS
