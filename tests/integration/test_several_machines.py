"""A sweep on a Ray cluster of three machines (see `hosts`): workers on different nodes, a node that dies, a head that dies."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from hosts import PORT, ROOT, Lab, skip_unless_possible, wait

from tests.tiny import tiny

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1800)]
SPEC = tiny("""
source: {paper: try, table: machines}
train: {max_steps: 40, validate_every: 40, checkpoint_every: 10}
decode: {beam_size: 1}
sweep: {seeds: [1], scheduler: {kind: fifo}}
rows:
  alone: {}
  late: {workers: 2, model: {encoder: {num_layers: 3}}}
""")
HEALTH = {"RAY_health_check_period_ms": "1000", "RAY_health_check_timeout_ms": "5000", "RAY_health_check_failure_threshold": "5"}
PATIENCE = 600.0
"""Seconds: a bound for what must not hang, on a machine that may be busy."""


class Sweep:
    """The sweep of a spec on a lab's cluster, or on one machine; and what its ledger says meanwhile."""

    def __init__(self, lab: Lab, spec: Path, results: Path) -> None:
        self.lab, self.spec, self.results = lab, spec, results

    def command(self) -> list[str]:
        places = ["--results", str(self.results), "--cache-dir", str(self.lab.home / "cache")]
        return [sys.executable, "-m", "orchestrator", "sweep", str(self.spec), "--engine", "ray", *places, "--no-tracking", "--json"]

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """The driver, on the head's machine."""
        self.log.unlink(missing_ok=True)
        head = self.lab.hosts[0]
        return head.popen(self.command(), self.log, RAY_ADDRESS=f"{head.address}:{PORT}", **environment)

    @property
    def log(self) -> Path:
        return self.results.with_suffix(".log")

    def here(self, **environment: str) -> subprocess.Popen[str]:
        """On a cluster of its own, of this one machine."""
        kept = {name: value for name, value in self.lab.environment.items() if not name.startswith("RAY_AUTH")}
        return subprocess.Popen(self.command(), cwd=ROOT, env=kept | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def steps(self) -> dict[str, int]:
        """Steps executed so far, repeated ones too, by row."""
        found = {}
        for journal in self.results.glob("*/journal.jsonl"):
            spec = journal.with_name("spec.yaml")
            name = yaml.safe_load(spec.read_text())["id"].split("/")[-1] if spec.exists() else "?"
            found[name] = len(journal.read_text().splitlines())
        return found

    def journals(self) -> dict[str, bytes]:
        """Of the rows that are trained: the run's name -> what it executed."""
        paths = [path for path in self.results.glob("*/journal.jsonl") if path.with_name("train.json").exists()]
        return {path.parent.name: path.read_bytes() for path in paths}


def rows(out: str) -> dict[str, dict]:
    records = [json.loads(line) for line in out.splitlines() if line.startswith('{"id"')]
    return {record["id"].split("/")[-1]: record for record in records}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    skip_unless_possible()
    with Lab(["head", "one", "two"]) as lab:
        lab["two"].hidden = lab.home / "unshared"
        lab["two"].hidden.mkdir()
        lab["head"].start_ray("--num-cpus=1", **HEALTH)
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda host: host.start_ray("--num-cpus=1"), lab.hosts[1:]))
        yield lab


@pytest.fixture(scope="module")
def spec(lab) -> Path:
    path = lab.home / "machines.yaml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def swept(lab, spec):
    """The whole sweep; a node with a worker of the last row dies in the middle of it."""
    sweep = Sweep(lab, spec, lab.home / "results")
    driver = sweep.start(NMT_FAULT="step@17:sleep4")
    wait(lambda: sweep.steps().get("late", 0) >= 15 or driver.poll() is not None, PATIENCE, "the last row's step 15")
    assert driver.poll() is None, sweep.log.read_text()[-3000:]
    finished = sweep.journals()
    places = [host for host in lab.hosts if host.running("ray::RayTrainWorker") or host.running("ray::_RayTrainWorker")]
    victim = next(host for host in places if host is not lab["head"])
    before = sweep.steps()["late"]
    victim.kill()
    moved = wait(lambda: sweep.steps()["late"] > before + 2 or driver.poll() is not None, PATIENCE, "the row on other nodes")
    driver.wait(PATIENCE)
    print(f"moved after {moved:.1f} s; {sweep.steps()['late'] - 40} steps redone")
    return sweep, driver.returncode, finished, places


def test_a_folder_that_a_node_does_not_see_is_refused(lab, spec):
    sweep = Sweep(lab, spec, lab.home / "unshared" / "results")
    sweep.results.parent.mkdir(exist_ok=True)
    assert sweep.start().wait(PATIENCE) == 2
    (line,) = [line for line in sweep.log.read_text().splitlines() if line.startswith("error:")]
    assert line.startswith(f"error: node two (10.0.0.3): {sweep.results}: does not see") and "Traceback" not in sweep.log.read_text()
    assert not sweep.steps()


def test_rows_of_a_dead_node_move_and_end_with_the_bits_of_one_machine(lab, spec, swept):
    sweep, code, finished, places = swept
    one = Sweep(lab, spec, lab.home / "one-machine").here()
    log = sweep.log.read_text()
    assert code == 0 and "Traceback" not in log, log[-3000:]
    assert len(places) == 2, "each worker on a node of its own"
    found = rows(log)
    assert {name: row["status"] for name, row in found.items()} == dict.fromkeys(["alone", "late"], "done")
    assert len(finished) == 1 and {name: data for name, data in sweep.journals().items() if name in finished} == finished
    assert sweep.steps()["late"] <= 40 + 10
    out, err = one.communicate(timeout=PATIENCE)
    assert one.returncode == 0, err[-3000:]
    assert {name: row["weights_sha256"] for name, row in rows(out).items()} == {n: r["weights_sha256"] for n, r in found.items()}


def test_a_driver_whose_head_dies_ends_with_a_line_and_the_next_cluster_goes_on(lab, spec, swept):
    more = lab.home / "more.yaml"
    more.write_text(SPEC + "  last: {workers: 2, model: {decoder: {num_layers: 3}}}\n")
    sweep = Sweep(lab, more, swept[0].results)
    finished = sweep.journals()
    driver = sweep.start(NMT_FAULT="step@17:sleep30", NMT_HEAD_WAIT_S="5")
    wait(lambda: sweep.steps().get("last", 0) >= 13 or driver.poll() is not None, PATIENCE, "the new row's step 13")
    assert driver.poll() is None, sweep.log.read_text()[-3000:]
    (server,) = lab["head"].running("gcs_server")
    os.kill(server, 9)
    start = time.monotonic()
    assert driver.wait(PATIENCE) == 5, sweep.log.read_text()[-3000:]
    print(f"ended after {time.monotonic() - start:.1f} s")
    assert "on a new cluster the same command resumes the sweep" in sweep.log.read_text() and "Traceback" not in sweep.log.read_text()
    for host in lab.hosts:
        host.kill()
    done = sweep.here()
    out, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0 and rows(out)["last"]["status"] == "done", err[-3000:]
    assert {name: data for name, data in sweep.journals().items() if name in finished} == finished and len(finished) == 2
    assert sweep.steps()["last"] <= 40 + 10
