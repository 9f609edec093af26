"""The driver's thread: it follows the files, survives a store that is down, and never raises or blocks."""

import socket
import time
from collections import Counter

from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.tracking.environment import reason
from orchestrator.tracking.sweeps import BackgroundProjector, reconcile
from tests.unit.tracking.reading import mlflow_client, runs_of


def states(fake_results) -> Counter[str]:
    return Counter(run.info.status for run in runs_of(fake_results.root))


def test_follows_a_sweep_to_its_end(fake_results) -> None:
    rows = [fake_results.row(name) for name in ("baseline", "dense")]
    sweep_id, said = fake_results.sweep(rows), []
    tracking = BackgroundProjector(fake_results.root, sweep_id, interval=0.05, warn=said.append)
    driver = RunLock(SweepFile.of(fake_results.root, sweep_id).lock).acquire()
    tracking.start()
    fake_results.spec(rows[0])
    deadline = time.monotonic() + 60
    for step in range(1, 21):
        fake_results.history(rows[0], step, step)
        time.sleep(0.01)
    while not (fake_results.root / "mlflow.db").exists() or states(fake_results)["RUNNING"] < 2:
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    assert reconcile(fake_results.root)[0] == Counter(running=1, pending=1), "a live sweep must not be closed by somebody else's reconcile"
    fake_results.train(rows[0])
    fake_results.score(rows[0])
    fake_results.finished(rows[1])
    tracking.stop(60)
    assert said == []
    driver.release()
    assert states(fake_results) == Counter(FINISHED=3)
    for run in runs_of(fake_results.root, sweep_id):
        if run.data.tags["nmt.kind"] == "run":
            history = mlflow_client(fake_results.root).get_metric_history(run.info.run_id, "train/loss")
            assert [point.step for point in history] == list(range(1, 21))


def test_server_down_costs_one_warning_and_no_time(fake_results, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    sweep_id, _ = fake_results.typical()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        uri, said = f"http://me:hunter2@127.0.0.1:{closed.getsockname()[1]}", []
        tracking = BackgroundProjector(fake_results.root, sweep_id, uri, interval=0.05, warn=said.append)
        started = time.monotonic()
        tracking.start()
        assert time.monotonic() - started < 0.5
        deadline = time.monotonic() + 60
        while not said and time.monotonic() < deadline:
            time.sleep(0.05)
        before = time.monotonic()
        tracking.stop(0.5)
        assert time.monotonic() - before < 2
    assert len(said) == 2 and "training" not in said[1] and "reconcile" in said[1]
    assert "cannot be written" in said[0] and "\n" not in said[0] and "hunter2" not in said[0]
    assert (
        reason(OSError(f"{uri}/api (Caused by ResponseError('too many 500 error responses'))"))
        == "the server answers with an error of its own"
    )
