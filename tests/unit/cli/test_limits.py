"""Closed standard streams, and limits of the shell: a command works without the streams, and names the limit in one line."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from typing import Any

import pytest

from orchestrator.cli.limits import exceeded
from orchestrator.engines.resources import check_limits
from orchestrator.errors import UserError

PROGRAM = (
    "import os, sys; from orchestrator.cli.limits import open_streams; open_streams()\n"
    "sys.stdin.buffer.read(); sys.stdout.write('x'); sys.stdout.flush(); sys.stderr.write('x'); [os.fstat(n) for n in range(3)]"
)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    done = subprocess.run(["bash", "-c", f'"$0" -c "$1" {closed}', sys.executable, PROGRAM], stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "out of memory"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "out of memory"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (RuntimeError("another"), None),
    ],
)
def test_errors_of_limits(error: Exception, words: str | None) -> None:
    said = exceeded(error)
    assert said is None if words is None else words in str(said)


def test_limits_with_which_ray_cannot_start(monkeypatch: Any) -> None:
    limits = {resource.RLIMIT_NOFILE: (64, 4096), resource.RLIMIT_AS: (-1, -1)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[kind])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.update({kind: pair}))
    check_limits()
    assert limits[resource.RLIMIT_NOFILE] == (1024, 4096), "raised as far as it may be"
    for kind, found in ((resource.RLIMIT_NOFILE, "ulimit -n 64"), (resource.RLIMIT_AS, "ulimit -v 0")):
        limits[kind] = (64, 64)
        with pytest.raises(UserError, match=found):
            check_limits()
        limits[kind] = (-1, -1)
