"""The Ray that a driver started, from outside: its folder and its processes."""

from __future__ import annotations

import contextlib
from pathlib import Path

from orchestrator.engines.ray.session_folder import temporary


def folder_of(driver: int) -> Path:
    """Its watcher's command line names it."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_text().split("\0")
            if words[-4:-3] and words[-4].endswith("session_folder.py") and words[-3] == str(driver):
                return Path(words[-2])
    raise AssertionError("no watcher")


def processes_of(folder: Path) -> list[Path]:
    """Entries of /proc."""
    mark, found = f"TMPDIR={temporary(folder)}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(entry)
    return found
