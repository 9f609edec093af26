"""The MLflow server's files: no secret in them, a login before it, loopback unless a container or a pod says otherwise."""

import configparser
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from orchestrator.paths import ROOT

MLFLOW = ROOT / "cluster" / "mlflow"


def test_compose_listens_on_loopback_keeps_the_database_inside_and_demands_secrets_of_the_environment():
    compose = yaml.safe_load((MLFLOW / "compose.yaml").read_text())
    services = compose["services"]
    assert all(port.startswith("127.0.0.1:") for port in services["mlflow"]["ports"])
    assert "ports" not in services["postgres"] and services["postgres"]["networks"] == ["inside"]
    assert compose["networks"]["inside"] == {"internal": True}
    for service in services.values():
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
    "PGHOST": "db", "PGPASSWORD": "canary-one", "MLFLOW_AUTH_ADMIN_USERNAME": "admin", "MLFLOW_AUTH_ADMIN_PASSWORD": "canary-two",
    "MLFLOW_FLASK_SERVER_SECRET_KEY": "canary-three",
}  # fmt: skip


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
