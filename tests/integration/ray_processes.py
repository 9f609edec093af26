"""The folder and the processes of the Ray that a driver started."""

from __future__ import annotations

import contextlib
from pathlib import Path

from orchestrator.engines.ray.session_folder import PREFIX, temporary


def folder_of(driver: int) -> Path:
    """The driver holds its lock."""
    links = [path.readlink() for path in Path(f"/proc/{driver}/fd").iterdir()]
    return next(link for link in links if link.name.startswith(PREFIX))


def users(folder: Path) -> list[int]:
    """Ids of processes by their environment; of Ray's agents, whose title overwrites it, by their open files."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _uses(entry, folder)]


def _uses(entry: Path, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        if f"TMPDIR={temporary(folder)}".encode() in (entry / "environ").read_bytes().split(b"\0"):
            return True
        agent = (entry / "cmdline").read_bytes().startswith(b"ray::")
        return agent and any(str(link.readlink()).startswith(f"{folder}/") for link in (entry / "fd").iterdir())
    return False
