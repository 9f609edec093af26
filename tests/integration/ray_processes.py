"""The folder and the processes of the Ray that a driver started."""

import contextlib
from pathlib import Path

from orchestrator.engines.ray.environment import TEMPORARY


def folder_of(driver: int) -> Path:
    (folder,) = Path("/tmp").glob(f"nmt-ray-{driver}-*")
    return folder


def users(folder: Path) -> list[int]:
    """Ids of processes by their environment; of Ray's agents, whose title overwrites it, by their open files."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _uses(entry, folder)]


def _uses(entry: Path, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        if f"TMPDIR={folder / TEMPORARY}".encode() in (entry / "environ").read_bytes().split(b"\0"):
            return True
        agent = (entry / "cmdline").read_bytes().startswith(b"ray::")
        return agent and any(str(link.readlink()).startswith(f"{folder}/") for link in (entry / "fd").iterdir())
    return False
