"""`sweep.sh` with a stand-in for Python that records how it is called, and what Ray packs of a checkout."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.paths import ROOT

STAND_IN = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in *orchestrator*) ;; *) exit 0 ;; esac
trap 'echo saved >> "$CALLS"; exit 130' TERM
echo ready >> "$CALLS"
for i in $(seq "${TICKS:-0}"); do sleep 0.1; done
exit "${CODE:-0}"
"""


@pytest.fixture
def job(tmp_path):
    """(arguments, environment) -> the running job; its calls of Python are the lines of `calls`."""
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)
    base = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"), "RAY_ADDRESS": "127.0.0.1:6379"}
    base |= {"NMT_RESULTS": str(tmp_path / "results")}

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        env = {name: value for name, value in (base | environment).items() if value}
        command = ["bash", str(ROOT / "cluster" / "sweep.sh"), *arguments]
        return subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)

    return start


def calls(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    return [line for line in lines if line != "ready"]


def test_it_makes_the_data_s_folder_and_does_not_wait_for_the_server(job, tmp_path):
    data = tmp_path / "share" / "data"
    assert job("spec.yaml", NMT_DATA_DIR=str(data), MLFLOW_TRACKING_URI="http://mlflow:5000").wait() == 0
    assert calls(tmp_path) == ["-m orchestrator sweep spec.yaml"]
    assert data.is_dir()


@pytest.mark.parametrize("name", ["NMT_RESULTS", "RAY_ADDRESS"])
def test_nothing_starts_without(name, job, tmp_path):
    done = job("spec.yaml", **{name: ""})
    assert done.wait() != 0 and name in done.stderr.read() and not calls(tmp_path)
