"""A head started as `cluster/ray-cluster-local.yaml` says, with a token, and a job through `cluster/submit.sh` and `cluster/sweep.sh`."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
CHECKOUT = [
    "models",
    "orchestrator",
    "search_spaces",
    "cluster",
    "docs/results",
    "pyproject.toml",
    "requirements.lock",
    ".gitignore",
    ".rayignore",
]
CANARIES = [".env", "auth_token", "deploy.pem", "results/ab/weights.bin", "data/train.de", ".git/config", "mlruns/meta"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Lab:
    """A user's home with the checkout and the token, as `ray up` would lay them on the head; the head runs there."""

    def __init__(self, home: Path) -> None:
        self.home, self.checkout, self.port = home, home / "nmt", free_port()
        for name in CHECKOUT:
            target = self.checkout / name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, target)
        for name in CANARIES:
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (self.checkout / name).write_text("canary")
        (self.checkout / ".venv").symlink_to(Path(sys.executable).parents[1], target_is_directory=True)
        (home / ".ray").mkdir()
        token = os.open(home / ".ray" / "auth_token", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(token, secrets.token_hex(32).encode())
        os.close(token)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "NMT_", "PYTHONPATH"))}
        self.environment = kept | {"HOME": str(home), "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{self.port}"}

    def start(self) -> subprocess.Popen[bytes]:
        command = yaml.safe_load((ROOT / "cluster" / "ray-cluster-local.yaml").read_text())["head_start_ray_commands"][-1]
        command = command.replace("--port=6379", f"--port={free_port()}").replace(" --autoscaling-config=~/ray_bootstrap_config.yaml", "")
        command = command.replace("&& ray start", "&& exec ray start")  # a signal to the shell would not reach Ray
        assert "exec ray start" in " ".join(command.split())
        command += f" --dashboard-port={self.port} --num-cpus=2 --temp-dir={self.home}/r --block"
        shared = {name: str(self.home / name.lower()) for name in ("NMT_RESULTS", "NMT_DATA_DIR", "NMT_CACHE_DIR")}
        patience = {"RAY_raylet_start_wait_time_s": "400", "RAY_worker_register_timeout_seconds": "300"}  # a busy machine is no fault
        of_the_nodes = patience | {"NMT_MIN_CPUS": "2", "MLFLOW_TRACKING_URI": f"sqlite:///{self.home}/server.db"}
        with (self.home / "head.log").open("wb") as log:
            return subprocess.Popen(
                ["bash", "-c", command], cwd=self.home, env=self.environment | shared | of_the_nodes, stdout=log, stderr=log
            )

    def command(self, *arguments: str) -> list[str]:
        return ["bash", str(self.checkout / "cluster" / "submit.sh"), *arguments]

    def submit(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), env=self.environment | environment, cwd=self.home, capture_output=True, text=True, timeout=600
        )


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    home = Path(tempfile.mkdtemp(prefix="nmt-lab-", dir="/tmp"))  # short: Ray's sockets lie below it
    lab = Lab(home)
    head = lab.start()
    try:
        deadline = time.monotonic() + 400
        while "Ray runtime started" not in (log := (home / "head.log").read_text()):
            assert head.poll() is None and time.monotonic() < deadline, f"the head did not start: {log[-3000:]}"
            time.sleep(0.2)
        yield lab
    finally:
        head.terminate()  # Ray drains the node, then ends its processes
        try:
            head.wait(90)
        except subprocess.TimeoutExpired:
            head.kill()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def submitted(lab) -> subprocess.CompletedProcess[str]:
    return lab.submit("cluster/smoke.yaml", "--json", NMT_SUBMISSION_ID="smoke")


def test_a_sweep_goes_through_the_cluster(lab, submitted):
    assert submitted.returncode == 0, submitted.stdout[-3000:] + submitted.stderr[-3000:]
    rows = {row["id"]: row for row in map(json.loads, re.findall(r"^\{\"id\".*$", submitted.stdout, re.MULTILINE))}
    assert {name: row["status"] for name, row in rows.items()} == {"cluster/smoke/baseline": "done", "cluster/smoke/two-workers": "done"}
    train = json.loads((Path(rows["cluster/smoke/two-workers"]["result"]) / "train.json").read_text())
    assert train["world_size"] == 2
    assert Path(rows["cluster/smoke/baseline"]["result"]).parent == lab.home / "nmt_results"
    assert "the cluster has 2 CPUs" in submitted.stdout


def test_its_results_are_on_the_tracking_server_and_not_beside_it(lab, submitted):
    assert not (lab.home / "nmt_results" / "mlflow.db").exists()
    with closing(sqlite3.connect(lab.home / "server.db")) as database:
        runs = {name for (name,) in database.execute("select name from runs where status = 'FINISHED'")}
    assert runs == {"cluster/smoke", "cluster/smoke/baseline:1", "cluster/smoke/two-workers:1"}


def test_neither_data_nor_results_nor_secrets_are_uploaded(lab, submitted):
    (package,) = lab.home.glob("r/session_2*/runtime_resources/working_dir_files/_ray_pkg_*/")
    uploaded = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {"orchestrator/cli.py", "cluster/sweep.sh", "models/transformer.py"} <= uploaded
    assert not [path for path in uploaded if (package / path).read_bytes() == b"canary"]
    assert not [path for path in uploaded if path.startswith((".venv/", ".git/"))]


def test_the_token_is_in_no_log(lab, submitted):
    token = (lab.home / ".ray" / "auth_token").read_text()
    assert token not in submitted.stdout + submitted.stderr + (lab.home / "head.log").read_text()
    logs = [path for path in lab.home.glob("r/session_2*/logs/**/*") if path.is_file()]
    assert logs and not [path for path in logs if token.encode() in path.read_bytes()]


def test_a_job_that_fails_says_so(lab, submitted):
    done = lab.submit("cluster/no-such.yaml")
    assert done.returncode == 1 and "cluster/no-such.yaml" in done.stdout and "Traceback" not in done.stdout


def test_without_the_cluster_s_token_nothing_is_submitted(lab, tmp_path):
    done = lab.submit("cluster/smoke.yaml", RAY_AUTH_TOKEN_PATH=str(tmp_path / "none"))
    assert done.returncode == 2 and done.stderr == "error: no token: set RAY_AUTH_TOKEN_PATH to the file that holds the cluster's\n"
    wrong = lab.submit("cluster/smoke.yaml", RAY_AUTH_TOKEN=secrets.token_hex(32))
    assert wrong.returncode != 0 and "Invalid authentication token" in wrong.stdout + wrong.stderr


def test_a_job_that_is_stopped_saves_first(lab, submitted):
    """No checkpoint is due but the one that the stop asks for."""
    environment = lab.environment | {"NMT_SUBMISSION_ID": "stopped"}
    many = ["--set", "train.max_steps=100000", "--set", "train.checkpoint_every=100000", "--set", "train.validate_every=100000"]
    job = subprocess.Popen(lab.command("cluster/smoke.yaml", *many), env=environment, cwd=lab.home, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    started: list[Path] = []
    while not started and time.monotonic() < deadline:
        time.sleep(0.2)
        started = [path.parent for path in lab.home.glob("nmt_results/*/journal.jsonl") if not (path.parent / "train.json").exists()]
    assert started
    ray = [str(lab.checkout / ".venv" / "bin" / "ray"), "job", "stop", "stopped"]
    subprocess.run(ray, env=environment | {"RAY_AUTH_MODE": "token"}, cwd=lab.home, capture_output=True, check=True, timeout=300)
    out, _ = job.communicate(timeout=300)
    assert "Traceback" not in out, out
    assert any(list(run.glob("ckpt/step-*/manifest.json")) for run in started)
