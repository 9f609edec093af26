"""The Ray engine end to end on this machine: Tune, ASHA, Train with two workers, resume, faults."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.errors import LockedError
from orchestrator.ledger.run_lock import RunLock
from orchestrator.paths import ROOT
from tests import command
from tests.integration.ray_processes import folder_of, users
from tests.tiny import tiny

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
SPEC = tiny("""
source: {paper: try, table: ray}
train: {max_steps: 40, validate_every: 20, checkpoint_every: 10}
decode: {beam_size: 2}
sweep:
  seeds: [1]
  concurrency: 1  # the order of arrival decides at a rung
  scheduler: {kind: asha, metric: valid/nll, rungs: [10, 20], reduction_factor: 2.0, shuffle_seed: 1}
rows:
  baseline: {pinned: true}
  slow: {optim: {schedule: {kind: inverse-sqrt, lr: 1.0e-5, warmup: 10}}}
  two-workers: {workers: 2, pinned: true, model: {encoder: {aggregation: {kind: linear}}}}
""")


def words(spec: Path, base: Path, *more: str, verb: str = "sweep") -> list[object]:
    return [verb, spec, "--results", base / "results", "--cache-dir", base.parent / "cache", "--json", *more]


def call(spec: Path, base: Path, *more: str, verb: str = "sweep", **env: str) -> dict[str, dict]:
    code, out, err = command.call(*words(spec, base, *more, verb=verb), **env)
    assert code == 0, err[-3000:]
    return {record["id"].split("/")[-1]: record for record in map(json.loads, out.splitlines())}


def executed(base: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in base.glob("results/*/journal.jsonl"))


def decisions(base: Path) -> list[tuple[str, dict]]:
    """(rung, decision) in the order of arrival."""
    rungs = [json.loads(path.read_text())["rungs"] for path in base.glob("results/sweeps/*.asha.json")]
    return [(rung, each) for found in rungs for rung, decided in found.items() for each in decided]


def wait_for(driver: subprocess.Popen, condition: Callable[[], object]) -> None:
    """Waits until the condition holds or the driver has ended; however slow the machine, pytest's timeout is the limit."""
    while not condition() and driver.poll() is None:
        time.sleep(0.1)


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "ray.yaml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def swept(spec):
    base = spec.parent / "sweep"
    return base, call(spec, base, "--engine", "ray")


def test_a_sweep_with_asha_and_a_two_worker_row(swept):
    base, rows = swept
    assert {name: row["status"] for name, row in rows.items()} == {"baseline": "done", "slow": "stopped", "two-workers": "done"}
    assert rows["slow"]["steps"] in (10, 20) and rows["slow"]["bleu"] is None
    assert rows["baseline"]["signature"].startswith("BLEU|nrefs:1")
    found = {record["key"]: record for record in (json.loads(path.read_text()) for path in base.glob("results/*/train.json"))}
    one, two = (found[rows[name]["keys"]["train"]] for name in ("slow", "two-workers"))
    assert two["world_size"] == 2
    assert found[rows["baseline"]["keys"]["train"]].keys() - one.keys() <= {"ended_by", "text"}, "a stopped run has its sources and sha256"
    token = base / "results" / "ray" / "auth_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_a_second_call_executes_nothing_and_leaves_stopped_rows_stopped(spec, swept):
    base, rows = swept
    before = executed(base)
    again = call(spec, base, "--engine", "ray")
    assert again == rows
    assert executed(base) == before


def test_mlflow_has_one_run_each_with_the_right_status(swept):
    from mlflow.tracking import MlflowClient

    base, _ = swept
    client = MlflowClient(f"sqlite:///{base / 'results' / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments)
    children = {run.data.tags["nmt.row"].split("/")[-1]: run.info.status for run in runs if run.data.tags.get("nmt.kind") == "run"}
    assert children == {"baseline": "FINISHED", "slow": "FINISHED", "two-workers": "FINISHED"}
    assert [run.info.status for run in runs if run.data.tags.get("nmt.kind") == "sweep"] == ["FINISHED"]


def test_one_worker_has_the_bits_of_the_local_engine(spec, swept):
    local = call(spec.with_name("ray.yaml#baseline"), spec.parent / "local", "--engine", "local", verb="run")
    assert local["baseline"]["weights_sha256"] == swept[1]["baseline"]["weights_sha256"]
    assert local["baseline"]["bleu"] == swept[1]["baseline"]["bleu"]


@pytest.mark.chaos
def test_a_killed_worker_is_replaced_and_ends_with_the_same_bits(spec, swept, tmp_path):
    """And relative paths mean the driver's folder, not the workers'."""
    run = [sys.executable, "-m", "orchestrator", "run", f"{spec}#baseline", "--engine", "ray", "--no-tracking", "--json"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "NMT_FAULT": "step@17:kill", "NMT_FAULT_ONCE": str(tmp_path / "once")}
    done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert list((tmp_path / "once").iterdir()), "the fault did not fire"
    assert json.loads(done.stdout)["weights_sha256"] == swept[1]["baseline"]["weights_sha256"]
    assert executed(tmp_path) <= 40 + 10


@pytest.mark.chaos
def test_a_signal_saves_and_ends_and_no_step_is_redone(spec, swept):
    """No other checkpoint is due: what the second call goes on from was saved because of the signal. (With two workers: test_ray_stops.)"""
    base = spec.parent / "asked"
    arguments = (f"{spec}#baseline", base, "--no-tracking", "--set", "train.checkpoint_every=1000")
    driver = command.start(*words(*arguments, "--engine", "ray", verb="run"), NMT_FAULT="step@15:sleep5")
    wait_for(driver, lambda: executed(base) >= 14)
    driver.send_signal(signal.SIGINT)
    _, err = driver.communicate(timeout=120)
    assert driver.returncode == 130 and "Traceback" not in err, err
    assert 15 <= executed(base) <= 20 and not list(base.glob("results/sweeps/*.stop"))
    rows = call(*arguments, "--engine", "local", verb="run")  # either engine resumes what the other has begun
    assert rows["baseline"]["weights_sha256"] == swept[1]["baseline"]["weights_sha256"] and executed(base) == 40


@pytest.mark.chaos
def test_a_killed_driver_loses_no_acknowledged_rung(spec, swept):
    base, rows = spec.parent / "driver", spec.with_name("ray.yaml#baseline,slow")
    driver = command.start(*words(rows, base, "--engine", "ray", "--no-tracking"))
    wait_for(driver, lambda: list(base.glob("results/*/rungs/*.json")))
    folder = folder_of(driver.pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    killed = time.monotonic()
    rungs = {path: path.read_bytes() for path in base.glob("results/*/rungs/*.json")}
    assert rungs
    before = decisions(base)
    for path in base.glob("results/*/lock"):
        with suppress(LockedError):  # a process that is killed has no environment before it has no files
            RunLock(path).acquire(timeout=30).release()
    found = call(rows, base, "--engine", "ray", "--no-tracking")
    assert found["baseline"]["weights_sha256"] == swept[1]["baseline"]["weights_sha256"]
    assert all(path.read_bytes() == data for path, data in rungs.items())
    assert [each for each in decisions(base) if each in before] == before, "the same decisions in the same order"
    while users(folder) and time.monotonic() < killed + 120:
        time.sleep(0.5)
    assert not users(folder), "Ray's agents of a killed driver wait for its head for a minute, then they end"


def test_what_cannot_fit_is_refused_at_once(spec, tmp_path):
    code, _, err = command.call(*words(spec, tmp_path, "--engine", "ray", "--workers", "64"))
    assert code == 2 and "needs 64 x 1 CPU" in err and "Traceback" not in err
    assert not list(tmp_path.glob("results/*/journal.jsonl"))
