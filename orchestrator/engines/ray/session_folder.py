"""The session folder of a Ray that a sweep starts: sockets, logs and temporary files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "nmt-ray-"


def temporary(folder: Path) -> Path:
    """The TMPDIR of Ray's processes."""
    return folder / "tmp"


def session(folder: Path) -> Path:
    """Ray's own folder. Each of Ray's processes sets it and its subfolders to 0777; the folder around it stays at 0700."""
    return folder / "r"


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Context: a new folder, removed at the end. Folders of drivers that were killed are removed first; their Ray ends by itself."""
    parent = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())  # short: Ray's sockets lie below it
    remove_dead(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    temporary(folder).mkdir(parents=True)  # a concurrent start may have removed the folder before it was locked
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def remove_dead(parent: Path) -> None:
    """Removes this user's folders whose lock no driver holds."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
            finally:
                os.close(lock)


def remove(folder: Path) -> None:
    """Removes the folder, retrying for a second, since a process that exits may still write a file."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
