"""`sweep.sh` with a stand-in for Python that records how it is called."""

import os
import subprocess

import pytest

from orchestrator.paths import ROOT


@pytest.fixture
def job(tmp_path):
    """(arguments, environment) -> exit code, stderr, and the calls of Python."""
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@" >> "$CALLS"\n')
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "calls").touch()
    base = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"), "RAY_ADDRESS": "127.0.0.1:6379"}
    base |= {"NMT_RESULTS": str(tmp_path / "results")}

    def run(*arguments: str, **environment: str) -> tuple[int, str, list[str]]:
        env = {name: value for name, value in (base | environment).items() if value}
        command = ["bash", str(ROOT / "cluster" / "sweep.sh"), *arguments]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stderr, (tmp_path / "calls").read_text().splitlines()

    return run


def test_it_makes_the_data_s_folder_and_does_not_wait_for_the_server(job, tmp_path):
    data = tmp_path / "share" / "data"
    done = job("spec.yaml", NMT_DATA_DIR=str(data), MLFLOW_TRACKING_URI="http://mlflow:5000")
    assert done == (0, "", ["-m orchestrator sweep spec.yaml"])
    assert data.is_dir()


@pytest.mark.parametrize("name", ["NMT_RESULTS", "RAY_ADDRESS"])
def test_nothing_starts_without(name, job):
    code, err, calls = job("spec.yaml", **{name: ""})
    assert code != 0 and name in err and not calls
