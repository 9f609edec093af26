"""The MLflow server's files: no secret in them, a login before it, loopback unless a container or a pod says otherwise."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
MLFLOW = ROOT / "cluster" / "mlflow"


def compose() -> dict:
    return yaml.safe_load((MLFLOW / "compose.yaml").read_text())


def test_compose_is_of_known_parts():
    """No schema of compose is at hand: these are its documented keys, as far as we use them."""
    file = compose()
    assert set(file) == {"name", "services", "networks", "volumes"}
    known = {"image", "build", "command", "depends_on", "environment", "ports", "volumes", "healthcheck", "restart", "read_only", "tmpfs"}
    known |= {"cap_drop", "security_opt", "networks"}
    for service in file["services"].values():
        assert set(service) <= known
        assert set(service["networks"]) <= set(file["networks"])
        assert {volume.split(":")[0] for volume in service["volumes"]} <= set(file["volumes"])
    build = file["services"]["mlflow"]["build"]
    assert (MLFLOW / build["context"]).resolve() == ROOT and (ROOT / build["dockerfile"]).is_file() and build["target"] == "mlflow"


def test_compose_listens_on_loopback_and_keeps_the_database_inside():
    services = compose()["services"]
    assert all(port.startswith("127.0.0.1:") for port in services["mlflow"]["ports"])
    assert "ports" not in services["postgres"] and services["postgres"]["networks"] == ["inside"]
    assert compose()["networks"]["inside"] == {"internal": True}


def test_compose_s_secrets_come_from_the_environment_and_are_demanded():
    for service in compose()["services"].values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|SECRET", name):
                assert re.fullmatch(r"\$\{NMT_MLFLOW_\w+:\?\}", value), name


def test_the_auth_app_s_settings_hold_no_password():
    config = configparser.ConfigParser()
    config.read(MLFLOW / "basic_auth.ini")
    assert set(config["mlflow"]) == {"default_permission", "database_uri", "auth_cache_ttl_seconds"}
    assert config["mlflow"]["database_uri"] == "postgresql+psycopg2://mlflow@/mlflow"


def served(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """serve.sh with a stand-in for `mlflow` that prints its arguments and its auth settings."""
    stand_in = tmp_path / "mlflow"
    stand_in.write_text('#!/bin/sh\necho "$MLFLOW_AUTH_CONFIG_PATH"\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | environment
    return subprocess.run(["bash", str(MLFLOW / "serve.sh")], env=env, cwd=tmp_path, capture_output=True, text=True)


SECRETS = {
    "PGHOST": "db",
    "PGPASSWORD": "canary-one",
    "MLFLOW_AUTH_ADMIN_USERNAME": "admin",
    "MLFLOW_AUTH_ADMIN_PASSWORD": "canary-two",
    "MLFLOW_FLASK_SERVER_SECRET_KEY": "canary-three",
}


def test_the_server_has_a_login_listens_on_loopback_and_shows_no_secret_in_its_arguments(tmp_path):
    done = served(tmp_path, **SECRETS)
    assert done.returncode == 0, done.stderr
    settings, *arguments = done.stdout.splitlines()
    assert Path(settings) == MLFLOW / "basic_auth.ini"
    assert arguments[arguments.index("--app-name") + 1] == "basic-auth" and arguments[arguments.index("--host") + 1] == "127.0.0.1"
    assert "canary" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", SECRETS)
def test_the_server_does_not_start_without(name, tmp_path):
    done = served(tmp_path, **{key: value for key, value in SECRETS.items() if key != name})
    assert done.returncode != 0 and name in done.stderr and not done.stdout


@pytest.mark.slow
def test_reconcile_says_why_the_server_cannot_be_written_and_keeps_the_password(fake_results):
    fake_results.typical()
    address = "http://reader:canary-four@127.0.0.1:9"
    done = reconcile(NMT_RESULTS=str(fake_results.root), MLFLOW_TRACKING_URI=address, MLFLOW_HTTP_REQUEST_MAX_RETRIES="0")
    assert done.returncode == 2
    assert done.stderr == "error: MLflow at http://***@127.0.0.1:9 cannot be written: connection refused\n"


@pytest.mark.slow
def test_reconcile_brings_results_to_a_store_once(fake_results, tmp_path):
    from mlflow.tracking import MlflowClient

    fake_results.typical()
    uri = f"sqlite:///{tmp_path / 'server.db'}"
    for _ in range(2):
        done = reconcile(NMT_RESULTS=str(fake_results.root), MLFLOW_TRACKING_URI=uri)
        assert done.returncode == 0, done.stderr
    client = MlflowClient(uri)
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    rows = [run.data.tags["nmt.row"] for run in runs if run.data.tags.get("nmt.kind") == "run"]
    assert len(rows) == len(set(rows)) == 5  # the sixth was never started


def reconcile(**environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("NMT_", "MLFLOW_TRACKING"))} | environment
    command = [sys.executable, "-m", "orchestrator", "reconcile"]
    return subprocess.run(command, env=env | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
