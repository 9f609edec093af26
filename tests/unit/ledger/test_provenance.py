import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.ledger import provenance as module
from orchestrator.ledger.provenance import collect, differences


def test_plain_data_without_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-7f3a")
    text = json.dumps(collect(device="cpu", threads=1))
    for secret in ("canary-7f3a", str(module.ROOT), f"{Path.home()}/", "http", "@"):
        assert secret not in text
    assert len(socket.gethostname()) < 6 or socket.gethostname() not in text


def test_fields():
    found = collect(device="cpu", threads=3)
    assert found["device"] == "cpu" and found["threads"] == 3 and found["libraries"]["torch"]
    assert found["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert collect(device="cpu", threads=3) == found


@pytest.mark.parametrize("rounds", [True, False])
def test_it_names_the_path_of_bf16_products(monkeypatch, rounds):
    monkeypatch.setattr("models.precision.rounds", lambda: rounds)
    assert ("bf16" in collect(device="cpu", threads=1)["matmul"]) is rounds


@pytest.fixture
def repository(tmp_path, monkeypatch):
    if shutil.which("git") is None:
        pytest.skip("no git here")

    def git(*arguments: str) -> None:
        environment = {n: v for n, v in os.environ.items() if not n.startswith("GIT_")}
        environment |= {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path / "repo"), *options, *arguments], env=environment, check=True, capture_output=True)

    root = tmp_path / "repo"
    for name in ("models", "orchestrator", "docs"):
        (root / name).mkdir(parents=True)
        (root / name / "a.py").write_text("1\n")
    git("init", "-q")
    monkeypatch.setattr(module, "ROOT", root.resolve())
    return root, git


def state() -> tuple[str | None, str | None]:
    found = collect()
    return found["git_commit"], found["dirty_sha256"]


def test_commit_and_dirty_diff_and_none_inside_a_foreign_repository(repository, monkeypatch):
    root, git = repository
    assert state()[0] is None and state()[1] is not None  # nothing committed: all of it is a difference
    git("add", ".")
    git("commit", "-q", "-m", "one")
    commit, dirty = state()
    assert len(commit) == 40 and dirty is None
    (root / "docs" / "a.py").write_text("2\n")
    assert state() == (commit, None)
    (root / "models" / "a.py").write_text("2\n")
    edited = state()[1]
    assert edited is not None
    (root / "orchestrator" / "new.py").write_text("3\n")
    both = state()[1]
    assert both not in (None, edited)
    (root / "orchestrator" / "new.py").write_text("4\n")
    assert state()[1] not in (None, edited, both)
    git("add", ".")
    git("commit", "-q", "-m", "two")
    assert state()[0] != commit and state()[1] is None

    monkeypatch.setattr(module, "ROOT", (root / "models").resolve())
    assert state() == (None, None)


def test_lock_file(repository):
    root, _ = repository
    assert collect()["lock_sha256"] is None
    (root / "requirements.lock").write_text("torch==2.13.0\n")
    assert len(collect()["lock_sha256"]) == 64


def test_differences():
    one = {"python": "3.11", "libraries": {"torch": "2.13"}, "threads": 1}
    assert differences([one, dict(one)]) == [] and differences([]) == []
    others = {**one, "libraries": {"torch": "2.12"}}, {"python": "3.11", "libraries": {"torch": "2.13"}}
    assert differences([one, *others]) == ["libraries.torch", "threads"]
