"""A head started as `cluster/ray-cluster-local.yaml` says, with a token, and jobs through `nmt-ablate submit` and `ray job submit`."""

import json
import os
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from benchmarks.mlflow_server import free_port
from orchestrator.paths import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1200)]
CHECKOUT = ["models", "orchestrator", "search_spaces", "cluster", "docs/results", "pyproject.toml", "requirements.lock"]
CHECKOUT += [".gitignore", ".rayignore"]
CANARIES = [
    ".env", "auth_token", "deploy.pem", "results/ab/weights.bin", "data/train.de", ".git/canary", "mlruns/meta", "notes/my-token.txt",
]  # fmt: skip
SECRET = "canary-" + secrets.token_hex(8)  # in the environment of whoever submits


class Lab:
    """A user's home with the checkout and the token, as `ray up` would lay them on the head; the head runs there."""

    def __init__(self, home: Path) -> None:
        self.home, self.checkout, self.port = home, home / "nmt", free_port()
        for name in CHECKOUT:
            target = self.checkout / name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, target)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(self.checkout)]
        for arguments in (["init", "-q"], ["add", "-f", *CHECKOUT], ["commit", "-q", "-m", "x"]):
            subprocess.run([*git, *arguments], check=True, capture_output=True, timeout=300)
        self.commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
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
        self.environment |= {"AWS_SECRET_ACCESS_KEY": SECRET, "OMP_NUM_THREADS": "1"}

    def start(self) -> subprocess.Popen[bytes]:
        command = yaml.safe_load((ROOT / "cluster" / "ray-cluster-local.yaml").read_text())["head_start_ray_commands"][-1]
        command = command.replace("--port=6379", f"--port={free_port()}").replace(" --autoscaling-config=~/ray_bootstrap_config.yaml", "")
        command = command.replace("&& ray start", "&& exec ray start")  # a signal to the shell would not reach Ray
        assert "exec ray start" in " ".join(command.split())
        agent = f"--dashboard-agent-listen-port={free_port()}"  # the default one is taken where another Ray runs
        command += f" --dashboard-port={self.port} {agent} --num-cpus=2 --temp-dir={self.home}/r --block"
        shared = {name: str(self.home / name.lower()) for name in ("NMT_RESULTS", "NMT_DATA_DIR", "NMT_CACHE_DIR")}
        patience = {"RAY_raylet_start_wait_time_s": "400", "RAY_worker_register_timeout_seconds": "300"}  # a busy machine is no fault
        of_the_nodes = patience | {"MLFLOW_TRACKING_URI": f"sqlite:///{self.home}/server.db"}
        environment = {name: value for name, value in self.environment.items() if name != "AWS_SECRET_ACCESS_KEY"}
        with (self.home / "head.log").open("wb") as log:
            return subprocess.Popen(["bash", "-c", command], cwd=self.home, env=environment | shared | of_the_nodes, stdout=log, stderr=log)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.checkout / ".venv" / "bin" / "python"), "-m", "orchestrator", "submit", *arguments]

    def submit(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), env=self.environment | environment, cwd=self.checkout, capture_output=True, text=True, timeout=600
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
def both(lab) -> list[subprocess.CompletedProcess[str]]:
    """The same sweep from two terminals at once."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda _: lab.submit("cluster/smoke.yaml", "--json"), range(2)))


@pytest.fixture(scope="module")
def submitted(both) -> subprocess.CompletedProcess[str]:
    return both[0]


def rows_of(output: str) -> dict[str, dict]:
    return {row["id"]: row for row in map(json.loads, re.findall(r"^\{\"id\".*$", output, re.MULTILINE))}


def name_of(done: subprocess.CompletedProcess[str]) -> str:
    return re.findall(r"^(sweep-[0-9a-f]{16}(?:-\d+)?): following", done.stderr, re.MULTILINE)[0]


def jobs_of(lab: Lab) -> str:
    """All that the cluster tells of its jobs."""
    token = (lab.home / ".ray" / "auth_token").read_text()
    request = urllib.request.Request(f"http://127.0.0.1:{lab.port}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


def test_a_sweep_goes_through_the_cluster(lab, submitted):
    assert submitted.returncode == 0, submitted.stdout[-3000:] + submitted.stderr[-3000:]
    rows = rows_of(submitted.stdout)
    assert {name: row["status"] for name, row in rows.items()} == {"cluster/smoke/baseline": "done", "cluster/smoke/two-workers": "done"}
    train = json.loads((Path(rows["cluster/smoke/two-workers"]["result"]) / "train.json").read_text())
    assert train["world_size"] == 2
    assert Path(rows["cluster/smoke/baseline"]["result"]).parent == lab.home / "nmt_results"
    for row in rows.values():  # the upload has no .git
        capsule = json.loads((Path(row["result"]) / "capsule.json").read_text())
        assert (capsule["git_commit"], capsule["dirty_sha256"]) == (lab.commit, None)


def test_two_terminals_are_one_job_and_a_third_finds_it_done(lab, both):
    assert both[0].stdout == both[1].stdout and both[1].returncode == 0
    assert name_of(both[0]) == name_of(both[1]) and len(json.loads(jobs_of(lab))) == 1
    assert sum("runs already: attached" in done.stderr for done in both) <= 1
    third = lab.submit("cluster/smoke.yaml", "--json")
    assert third.returncode == 0 and "has succeeded already" in third.stderr and rows_of(third.stdout) == rows_of(both[0].stdout)
    assert all(len(path.read_text().splitlines()) == 40 for path in lab.home.glob("nmt_results/*/journal.jsonl"))


def test_plain_ray_job_submit_runs_the_same_sweep(lab, submitted):
    """What is done is not done again."""
    sweep = ["python", "-m", "orchestrator", "sweep", "cluster/smoke.yaml", "--json", "--no-tracking"]
    ray = [str(lab.checkout / ".venv" / "bin" / "ray"), "job", "submit", "--working-dir", ".", "--", *sweep]
    done = subprocess.run(
        ray, env=lab.environment | {"RAY_AUTH_MODE": "token"}, cwd=lab.checkout, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and rows_of(done.stdout) == rows_of(submitted.stdout), done.stdout[-3000:]


def test_its_results_are_on_the_tracking_server_and_not_beside_it(lab, submitted):
    assert not (lab.home / "nmt_results" / "mlflow.db").exists()
    with closing(sqlite3.connect(lab.home / "server.db")) as database:
        runs = {name for (name,) in database.execute("select name from runs where status = 'FINISHED'")}
    assert runs == {"cluster/smoke", "baseline s1", "two-workers s1"}


def test_neither_data_nor_results_nor_secrets_are_uploaded(lab, submitted):
    for package in lab.home.glob("r/session_2*/runtime_resources/working_dir_files/_ray_pkg_*/"):
        uploaded = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
        assert {"orchestrator/cli/main.py", "cluster/sweep.sh", "models/transformer.py"} <= uploaded
        ours = ".nmt-source.json" in uploaded
        assert not [path for path in uploaded if (package / path).read_bytes() == b"canary" and (ours or "my-token" not in path)]
        assert not [path for path in uploaded if path.startswith((".venv/", ".git/"))]


def test_no_secret_is_in_a_job_a_log_a_result_or_mlflow(lab, submitted):
    token = (lab.home / ".ray" / "auth_token").read_text()
    told = submitted.stdout + submitted.stderr + (lab.home / "head.log").read_text() + jobs_of(lab)
    logs = [path for path in lab.home.glob("r/session_2*/logs/**/*") if path.is_file()]
    kept = [path for path in [*lab.home.glob("nmt_results/**/*"), lab.home / "server.db"] if path.is_file()]
    assert logs and len(kept) > 10
    for secret in (token, SECRET):
        assert secret not in told
        assert not [path for path in (*logs, *kept) if secret.encode() in path.read_bytes()]


def test_the_job_s_own_exit_code_comes_back(lab, submitted):
    done = lab.submit("cluster/smoke.yaml", "--workers", "64", "--set", "train.max_steps=39")
    assert done.returncode == 2 and "needs 64 x 1 CPU" in done.stdout and "Traceback" not in done.stdout
    assert f"{name_of(done)}: FAILED, exit code 2" in done.stderr


def test_without_the_cluster_s_token_nothing_is_submitted(lab, tmp_path):
    for variables, text in (
        ({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")}, "cannot be read: set RAY_AUTH_TOKEN_PATH"),
        ({"RAY_AUTH_TOKEN": secrets.token_hex(32)}, "the token is not the cluster's"),
    ):
        done = lab.submit("cluster/smoke.yaml", **variables)
        assert done.returncode == 2 and text in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_ctrl_c_detaches_and_a_job_that_is_stopped_saves_first(lab, submitted):
    """No checkpoint is due but the one that the stop asks for."""
    many = ["--set", "train.max_steps=100000", "--set", "train.checkpoint_every=100000", "--set", "train.validate_every=100000"]
    terminal = subprocess.Popen(
        lab.command("cluster/smoke.yaml#baseline", *many),
        env=lab.environment,
        cwd=lab.checkout,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    started: list[Path] = []
    while not started and time.monotonic() < deadline:
        time.sleep(0.2)
        started = [path.parent for path in lab.home.glob("nmt_results/*/journal.jsonl") if not (path.parent / "train.json").exists()]
    assert started
    terminal.send_signal(signal.SIGINT)
    _, err = terminal.communicate(timeout=120)
    name = re.findall(r"detached; (sweep-[0-9a-f]+) continues", err)[0]
    assert terminal.returncode == 130 and f"nmt-ablate submit --attach {name}" in err and "Traceback" not in err
    again = subprocess.Popen(
        lab.command("--attach", name), env=lab.environment, cwd=lab.checkout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ray = [str(lab.checkout / ".venv" / "bin" / "ray"), "job", "stop", name]
    subprocess.run(ray, env=lab.environment | {"RAY_AUTH_MODE": "token"}, cwd=lab.home, capture_output=True, check=True, timeout=120)
    out, err = again.communicate(timeout=300)
    assert again.returncode == 130 and "STOPPED" in err and "Traceback" not in out + err, out + err
    assert any(list(run.glob("ckpt/step-*/manifest.json")) for run in started)
