"""Which ledger a run in MLflow is of. A server is shared: two people's `quickstart/fusion` are two sweeps there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from orchestrator.files import atomic

_ID = re.compile(r"[0-9a-f]{16}")


def ledger_id(results: Path) -> str:
    """16 hexadecimal digits, made at the first call and kept in RESULTS/.tracking/ledger; a copy of the folder is the same ledger."""
    path = results / ".tracking" / "ledger"
    with file_lock(results / ".tracking" / "ledger.lock"):
        with contextlib.suppress(OSError):
            if _ID.fullmatch(known := path.read_text(encoding="ascii", errors="replace").strip()):
                return known
        found = secrets.token_hex(8)
        atomic.write_text(path, found + "\n")
        return found


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Holds an flock on `path`; waits for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
