"""The shared server as `cluster/mlflow/serve.sh` starts it, PostgreSQL behind it: many writers, an outage, and logins."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import mlflow_server
from benchmarks.mlflow_server import SharedServer
from benchmarks.synthetic_ledger import fill
from orchestrator.paths import ROOT
from orchestrator.tracking.store import MlflowStore
from orchestrator.tracking.sweeps import BackgroundProjector, reconcile
from tests.command import call

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(mlflow_server.absent()), reason=str(mlflow_server.absent())),
]
WRITERS, RUNS, REPORTS = 16, 4, 10

WRITER = """
import sys
from pathlib import Path
from orchestrator.tracking.sweeps import BackgroundProjector
said = []
tracking = BackgroundProjector(Path(sys.argv[1]), sys.argv[2], sys.argv[3], interval=0.1, warn=said.append)
print("ready", flush=True)
sys.stdin.readline()
tracking.start()
tracking.stop(300)
print(said, flush=True)
sys.exit(1 if said else 0)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[SharedServer]:
    with SharedServer() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


def children(results: Path, uri: str, sweep: str) -> dict[str, list[Any]]:
    """Name -> runs of the sweep's rows."""
    found: dict[str, list[Any]] = {}
    for run in MlflowStore(results, uri).find({"nmt.sweep": sweep}):
        if run.data.tags["nmt.kind"] == "run":
            found.setdefault(run.info.run_name, []).append(run)
    return found


def check_whole(results: Path, uri: str, sweep: str, runs: int) -> None:
    """Every run once, finished, with every point of its history once."""
    store = MlflowStore(results, uri)
    found = children(results, uri, sweep)
    assert len(found) == runs and {len(same) for same in found.values()} == {1}
    assert Counter(run.info.status for run in store.find({"nmt.sweep": sweep})) == {"FINISHED": runs + 1}
    for name, (run,) in found.items():
        assert {"bleu", "chrf", "tokens_per_second", "train/loss", "valid/nll"} <= set(run.data.metrics), name
        assert len(run.data.params) > 3 and run.data.tags["nmt.label"].startswith("synthetic")
    (run,) = found[sorted(found)[-1]]
    points = store.client.get_metric_history(run.info.run_id, "train/loss")
    assert [point.step for point in points] == [100 * step for step in range(1, REPORTS + 1)]
    files = sorted(file.path for file in store.client.list_artifacts(run.info.run_id))
    assert files == ["capsule.json", "hypotheses.txt", "score.json", "spec.yaml", "train.json"]


def test_sixteen_writers_at_once(server: SharedServer, tmp_path: Path) -> None:
    """Thirteen ledgers with a sweep of the same name, as of thirteen people; three writers more of a ledger that has one."""
    folders = [tmp_path / str(number % 13) for number in range(WRITERS)]
    for folder in dict.fromkeys(folders):
        fill(folder, RUNS, reports=REPORTS)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), "synthetic-grid", server.uri],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for folder in folders
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=600)[0].strip() for writer in writers]
    assert said == ["[]"] * WRITERS and not any(writer.returncode for writer in writers)
    for folder in dict.fromkeys(folders):
        check_whole(folder, server.uri, "synthetic-grid", RUNS)


def test_a_server_that_dies_in_the_middle_gets_everything_once(server: SharedServer, tmp_path: Path) -> None:
    fill(tmp_path, 30, reports=REPORTS, name="synthetic/outage")
    said: list[str] = []
    tracking = BackgroundProjector(tmp_path, "synthetic-outage", server.uri, interval=0.1, warn=said.append)
    tracking.start()
    deadline = time.monotonic() + 300
    while tracking.projector.written < 5:
        assert time.monotonic() < deadline, said
        time.sleep(0.02)
    server.kill()
    before = tracking.projector.written
    while not said:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert before < 30 and "cannot be written (connection refused); the work continues" in said[0]
    tracking.stop(60)
    assert len(said) == 2 and "reconcile" in said[1]
    server.start()
    for _ in range(2):  # the second finds nothing to do
        assert reconcile(tmp_path, server.uri) == (Counter(done=30), [])
    check_whole(tmp_path, server.uri, "synthetic-outage", 30)


def test_a_run_by_the_command_line_never_waits_for_the_server(server: SharedServer, tmp_path: Path) -> None:
    results, cache = ["--results", str(tmp_path / "results")], ["--cache-dir", str(tmp_path / "cache")]
    run = ["run", "quickstart/fusion/baseline", "--profile", "smoke", *results, *cache]
    code, out, wrong = call(*run, "--tracking-uri", server.uri, MLFLOW_TRACKING_PASSWORD="canary-wrong")
    assert code == 0 and "login refused" in wrong and "canary" not in wrong + out
    code, _, down = call(*run, "--tracking-uri", f"http://127.0.0.1:{mlflow_server.free_port()}")
    assert code == 0 and "connection refused" in down and "reconcile" in down, down
    code, out, late = call(*run, MLFLOW_TRACKING_URI=server.uri)  # nothing to do, but to tell the server
    assert code == 0 and "0 steps" in late, late
    (found,) = children(tmp_path / "results", server.uri, "quickstart-fusion-baseline@smoke-1").values()
    assert [entry.info.status for entry in found] == ["FINISHED"]
    assert not (tmp_path / "results" / "mlflow.db").exists()
    assert server.password not in wrong + down + late + out + server.log.read_text(errors="replace")
