"""SIGKILL at every step of writing, then the same command: nothing is lost, little is redone, the bits are the same."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.command import call, start
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


def words(spec: Path, results: Path, cache: Path) -> list[str]:
    return ["run", str(spec), "--results", str(results), "--cache-dir", str(cache), "--no-tracking", "--json"]


def training(arguments: list[str], results: Path, fault: str) -> subprocess.Popen[str]:
    """A run whose training has begun."""
    process = start(*arguments, NMT_FAULT=fault)
    while not any(path.stat().st_size > 0 for path in results.glob("*/journal.jsonl")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    return process


def result(done: tuple[int, str, str]) -> dict:
    code, out, err = done
    assert code == 0, err
    (line,) = out.splitlines()
    return json.loads(line)


def executed(results: Path) -> int:
    (journal,) = results.glob("*/journal.jsonl")
    return sum(1 for line in journal.read_text().splitlines() if line.startswith("{") and line.endswith("}"))


@pytest.fixture(scope="module")
def golden(cli, tmp_path_factory):
    base = tmp_path_factory.mktemp("golden")
    spec = base / "tiny.yaml"
    spec.write_text(SPEC)
    return spec, base / "cache", result(cli(*words(spec, base / "results", base / "cache")))


@pytest.fixture
def run(golden, tmp_path) -> list[str]:
    """A run of the same row into a folder of its own."""
    return words(golden[0], tmp_path / "results", golden[1])


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_called_again(golden, run, cli, tmp_path, point):
    code, _, err = call(*run, NMT_FAULT=f"{point}:kill")
    assert code == -signal.SIGKILL, f"{point} was not reached: {err[-500:]}"
    got = result(cli(*run))
    assert (got["weights_sha256"], got["bleu"]) == (golden[2]["weights_sha256"], golden[2]["bleu"])
    assert executed(tmp_path / "results") <= STEPS + INTERVAL
    assert not list((tmp_path / "results").rglob("*tmp*"))


def test_a_damaged_checkpoint_is_passed_over_and_said(golden, run, cli, tmp_path):
    call(*run, NMT_FAULT="step@35:kill")
    newest = max(tmp_path.glob("results/*/ckpt/step-*"))
    file = newest / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    done = cli(*run)
    assert result(done)["weights_sha256"] == golden[2]["weights_sha256"]
    assert newest.name in done[2]
    assert executed(tmp_path / "results") <= STEPS + 2 * INTERVAL + INTERVAL


def test_nan_is_diverged_exit_1_and_not_tried_again(golden, cli, tmp_path):
    spec = tmp_path / "diverging.yaml"
    spec.write_text(SPEC.replace("lr: 3.0e-3", "lr: 1.0e+38"))
    for _ in range(2):
        code, out, _ = cli(*words(spec, tmp_path / "results", golden[1]))
        assert code == 1 and json.loads(out)["status"] == "diverged"
    assert executed(tmp_path / "results") <= 7


def test_two_drivers_at_once_one_is_refused(golden, run, cli, tmp_path):
    first = training(run, tmp_path / "results", "step@20:sleep8")
    code, _, err = cli(*run)
    assert code == 3 and str(first.pid) in err
    out, err = first.communicate(timeout=120)
    assert result((first.returncode, out, err))["weights_sha256"] == golden[2]["weights_sha256"]
    assert executed(tmp_path / "results") == STEPS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_and_no_step_is_redone(golden, run, cli, tmp_path, number):
    process = training(run, tmp_path / "results", "step@15:sleep3")
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert 0 < executed(tmp_path / "results") < STEPS
    assert result(cli(*run))["weights_sha256"] == golden[2]["weights_sha256"]
    assert executed(tmp_path / "results") == STEPS
