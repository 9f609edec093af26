"""How a Ray that a sweep starts ends, without Ray: nothing starts after a stop, nothing stays behind, no secret is handed on."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.errors import ClusterError
from orchestrator.paths import ROOT

pytest.importorskip("ray")
from ray.tune.execution import class_cache

from orchestrator import interrupt
from orchestrator.engines.execute import Ray
from orchestrator.engines.ray import address as ray_address
from orchestrator.engines.ray import cluster, environment, tune
from orchestrator.engines.ray.environment import ray_environment, secret_variables
from orchestrator.engines.ray.tune import limit_variables
from orchestrator.sweeps import row
from tests.unit.conftest import refused


@pytest.mark.parametrize("others", [0.0, 1.0])
def test_all_workers_of_a_row_end_before_it_begins_where_one_is_asked(tmp_path, monkeypatch, others):
    """One worker of two may see the file and the other not yet."""
    monkeypatch.setattr(row, "run_row", lambda *_: pytest.fail("the row was begun"))
    monkeypatch.setattr(interrupt, "_watched", [])
    task = SimpleNamespace(sweep="sweep", results=str(tmp_path))
    stop = interrupt.stop_file(tmp_path, "sweep")
    if not others:
        stop.parent.mkdir()
        stop.touch()
    runtime = SimpleNamespace(any=lambda flag: flag or bool(others))
    assert row.run_unless_stopped(task, runtime, []) is False


@pytest.mark.parametrize(("address", "told"), [(None, "Ray did not start"), ("10.0.0.1:6379", "RAY_ADDRESS 10.0.0.1:6379: Ray did not")])
def test_a_ray_that_does_not_start_is_one_line(tmp_path, monkeypatch, address, told):
    starts = []

    def fail(*_, _temp_dir="", **__):
        starts.append(1)
        if _temp_dir:
            (logs := Path(_temp_dir) / "session_latest/logs").mkdir(parents=True, exist_ok=True)
            (logs / "raylet.err").write_text("raylet: no libfoo.so.1\nstack\n")
        raise RuntimeError("The dashboard\nfailed to start" + 99 * " again" + ", for lack of a port")

    monkeypatch.setattr(cluster.ray, "init", fail)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    cause = "; raylet: raylet: no libfoo.so.1" if address is None else ""
    line = rf"^{told}.* \(RuntimeError\): The dashboard failed to start .* again, for lack of a port{cause}; the same command tries again"
    with pytest.raises(ClusterError, match=line), cluster.cluster(tmp_path, several_workers=True):
        pass
    assert len(starts) == (2 if address is None else 1), "a Ray of our own is started once more: a busy machine exceeds Ray's 30 s"


SECRETS = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]


def test_secrets_are_not_for_ray_unless_the_results_lie_in_a_bucket():
    others = ["HF_TOKEN", "NMT_MLFLOW_DB_PASSWORD", "MLFLOW_TRACKING_URI", "SSH_AUTH_SOCK"]
    needed = ["PATH", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE", "TOKENIZERS_PARALLELISM", "AWS_REGION", "NMT_FAULT", "OMP_NUM_THREADS"]
    assert secret_variables([*SECRETS, *others, *needed], bucket=False) == [*SECRETS, *others]
    assert secret_variables([*SECRETS, *others, *needed], bucket=True) == others


def test_ray_starts_without_secrets_and_the_environment_comes_back(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.delenv("TMPDIR", raising=False)
    before = dict(os.environ)
    with ray_environment(tmp_path, tmp_path / "results"):
        assert "canary" not in os.environ.values()
        assert os.environ["TMPDIR"] == str(tmp_path / "tmp")
        assert tempfile.gettempdir() != os.environ["TMPDIR"]
        assert not os.environ["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path))
    assert dict(os.environ) == before


def test_tune_passes_no_keys_on_by_what_ray_logs(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setattr(class_cache, "ENV_VARS_TO_PROPAGATE", class_cache.ENV_VARS_TO_PROPAGATE | set(SECRETS))
    limit_variables(tmp_path)
    assert set(SECRETS).isdisjoint(class_cache.ENV_VARS_TO_PROPAGATE)
    assert "RAY_TRAIN_V2_ENABLED" in class_cache.ENV_VARS_TO_PROPAGATE


@pytest.mark.parametrize(
    ("address", "token", "told"),
    [
        ("local", "t", "RAY_ADDRESS local: expected HOST:PORT"),  # Ray would start one that listens on all interfaces
        ("nonsense", "t", "RAY_ADDRESS nonsense: expected HOST:PORT of the cluster's head, as in 10.0.0.1:6379"),
        ("http://127.0.0.1:8265", "t", "RAY_ADDRESS http://127.0.0.1:8265: expected HOST:PORT"),
        ("127.0.0.1:1", "", "no token: set RAY_AUTH_TOKEN_PATH"),
        ("127.0.0.1:1", "t", "RAY_ADDRESS 127.0.0.1:1: nothing answers there; expected HOST:PORT of the head of a cluster that runs"),
        ("LISTENING", "t", "RAY_ADDRESS LISTENING: the cluster does not take this token"),
    ],
)
def test_an_address_that_is_wrong_is_told_in_one_line_at_once(address, token, told, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ray_address, "_probe", lambda _: "the cluster does not take this token")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        here = f"127.0.0.1:{listening.getsockname()[1]}"
        before = time.monotonic()
        (line,) = refused(ray_address.check_address, address.replace("LISTENING", here))
    assert time.monotonic() - before < 5
    assert line.startswith(told.replace("LISTENING", here))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert refused(Ray().check, [])[0].startswith("RAY_AUTH_MODE disabled: expected token")


def test_runs_that_asha_stopped_do_not_fail_with_lost_nodes(tmp_path, monkeypatch):
    room = SimpleNamespace(start=lambda _: None, reason="nodes were lost")
    monkeypatch.setattr(tune, "open_experiment", lambda *_: SimpleNamespace(room=room, run=lambda *_: {}))
    tasks = [SimpleNamespace(name=name, train_key="ab" * 32, to_json=dict) for name in ("cut", "lost")]
    asha, options = SimpleNamespace(path=None, stopped=lambda: {"cut": 5}), SimpleNamespace(results=tmp_path, slug="demo")
    group = [(tasks, SimpleNamespace(memory=None, gpus=0))]
    assert tune._run_group(group, asha, None, options) == {"lost": "nodes were lost"}


WATCHED = """
import sys, time
from orchestrator.engines.ray.cluster import head_watchdog
with head_watchdog(*sys.argv[1:]):
    time.sleep(60)
"""


def test_a_driver_whose_head_is_gone_ends_with_one_line():
    with socket.socket() as head, socket.socket() as gone:
        for each in (head, gone):
            each.bind(("127.0.0.1", 0))
        head.listen()
        words = [f"127.0.0.1:{each.getsockname()[1]}" for each in (head, gone)]
        environment = os.environ | {"NMT_HEAD_WAIT_S": "1"}
        command = [sys.executable, "-c", WATCHED, *words]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 5 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: Ray's head ({words[1]}) has not answered for 1 s")


def test_the_folder_of_a_killed_driver_goes_when_the_next_sweep_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "PARENT", tmp_path)
    (tmp_path / "nmt-ray-1-killed").mkdir()
    with environment.ray_folder() as old:
        for folder in tmp_path.iterdir():
            os.utime(folder, (0, 0))
        with environment.ray_folder() as new:
            assert sorted(tmp_path.iterdir()) == sorted([old, new]), "the killed one's alone goes"
    assert not list(tmp_path.iterdir())
