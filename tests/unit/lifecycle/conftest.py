"""A results folder with runs in every state, made without training; one small trained row for what needs a model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from life import SPEC, put


@pytest.fixture(autouse=True)
def _no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NMT_FAULT", "NMT_FAULT_ONCE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def killed() -> Callable[..., int]:
    """`killed(work, fault)`: runs `work()` in a forked process under NMT_FAULT; its exit code, negative for a signal."""

    def run(work: Callable[[], object], fault: str) -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.environ["NMT_FAULT"] = fault
                signal.alarm(60)
                work()
                code = 0
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return run


@pytest.fixture
def dead() -> dict[str, object]:
    """What the lock of a process that is over says."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"held": True, "pid": process.pid, "host": socket.gethostname(), "boot_id": boot, "start_time": 1, "epoch": 3, "token": "x"}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """(spec file, results, cache) with `base` trained and scored for 6 updates, and `child` from it. Not to be changed."""
    from orchestrator.cli.main import run

    base = tmp_path_factory.mktemp("trained")
    spec = put(base / "spec.yaml", SPEC)
    arguments = ["--results", str(base / "results"), "--cache-dir", str(base / "cache"), "--no-tracking", "--json"]
    assert run(["sweep", str(spec), "--engine", "local", *arguments]) == 0
    return spec, base / "results", base / "cache"
