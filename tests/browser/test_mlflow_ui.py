"""What a researcher sees: the run list of the MLflow UI in a real browser, and the server's manners."""

import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.tracking.store import MlflowStore
from orchestrator.tracking.sweeps import reconcile
from tests.conftest import FakeResults
from tests.unit.tracking.serving import Served, served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1600,900"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fake = FakeResults(tmp_path_factory.mktemp("results"))
    fake.typical()
    reconcile(fake.root)
    return fake.root


@pytest.fixture(scope="module")
def server(results: Path) -> Iterator[Served]:
    with served(results, 5600) as running:
        yield running


@pytest.fixture
def browse(chromium: str, tmp_path: Path) -> Callable[..., str]:
    def visit(url: str, *options: str) -> str:
        """The page's DOM once it has settled."""
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [chromium, *QUIET, profile, "--virtual-time-budget=60000", *options, url]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    return visit


def experiment(results: Path) -> str:
    found = MlflowStore(results).client.get_experiment_by_name("nmt-ablate")
    assert found is not None
    return str(found.experiment_id)


def test_run_list_and_a_run(results: Path, server: Served, browse: Callable[..., str], tmp_path: Path) -> None:
    runs = {run.info.run_name: run for run in MlflowStore(results).find({"nmt.sweep": "sweep-1"})}
    assert server.page.startswith(f"{server.url}/#/experiments/{experiment(results)}/runs?")
    listed = browse(server.page, "--dump-dom")
    assert "fake sweep" in listed and "Model training" in listed and "2 done, 1 stopped" in listed and "best: dense" in listed
    assert "tokens_per_second" in listed
    dense = runs["dense s1"].info.run_id
    page = browse(f"{server.url}/#/experiments/{experiment(results)}/runs/{dense}", "--dump-dom")
    assert "dense s1" in page
    assert "28.42" in page and "bleu" in page
    listing = Path(os.environ.get("SCREENSHOTS", tmp_path)) / "mlflow-runs.png"
    browse(server.page, f"--screenshot={listing}")
    shot = Path(os.environ.get("SCREENSHOTS", tmp_path)) / "mlflow-run.png"
    browse(f"{server.url}/#/experiments/{experiment(results)}/runs/{dense}", f"--screenshot={shot}")
    assert shot.stat().st_size > 20_000


def test_only_this_machine_and_no_jobs(server: Served) -> None:
    def status(path: str, **headers: str) -> int:
        try:
            with urllib.request.urlopen(urllib.request.Request(server.url + path, headers=headers), timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert status("/health") == 200
    assert status("/ajax-api/2.0/mlflow/experiments/search?max_results=5") == 200
    assert status("/ajax-api/2.0/mlflow/experiments/search?max_results=5", Host="evil.example") == 403
    assert status("/ajax-api/3.0/jobs/1") in (403, 404)
    port = server.url.rpartition(":")[2]
    listening = subprocess.run(["ss", "-ltnH"], capture_output=True, text=True).stdout.splitlines()
    assert all("127.0.0.1:" in line for line in listening if f":{port} " in line)


def test_ends_by_signals_and_takes_the_next_port(results: Path, server: Served) -> None:
    port = int(server.url.rpartition(":")[2])
    for number, returncode in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        with served(results, port) as other:
            assert int(other.url.rpartition(":")[2]) > port
            other.process.send_signal(number)
            assert other.process.wait(20) == returncode
