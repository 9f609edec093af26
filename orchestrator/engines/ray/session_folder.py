"""The folder of a Ray that a sweep starts: sockets, logs, temporary files. Nothing of it outlives the sweep, however that ends.

Run as a program, with a process's number and a folder, it is that folder's watcher: once the process is gone, it ends what is left of its
Ray and removes the folder. Only the standard library is imported, for the watcher starts at once and stays small.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "nmt-ray-"
PATIENCE = 5.0
"""Seconds in which processes of a Ray that was shut down end by themselves."""


def temporary(folder: Path) -> Path:
    """Where Ray's processes put their temporary files; as TMPDIR it is in the environment of each, and in nobody else's."""
    return folder / "tmp"


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Within: a new folder, which dead processes' folders make room for. At the end, or when this process dies, it is gone."""
    parent = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())  # short: Ray's sockets lie below it
    remove_dead(parent)
    folder, lock = _make(parent)
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(folder)],
        cwd="/",
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[lock],  # it holds the lock too
        start_new_session=True,  # Ctrl-C in a terminal is not for it
    )
    try:
        yield folder
    finally:
        end_users(folder, PATIENCE)
        remove(folder)
        watcher.kill()
        watcher.wait()
        os.close(lock)


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):  # another start took it for a dead one's
            temporary(folder).mkdir()
            return folder, lock
        os.close(lock)


def remove_dead(parent: Path) -> None:
    """Removes the folders that no live process has: neither a sweep by its lock, nor any by its environment or command line."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _found(lambda entry, folder=folder: _uses(entry, folder) or _names(entry, folder)):  # type: ignore[misc]
                remove(folder)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


def remove(folder: Path) -> None:
    """Again and again for a second: a process that ends may write a last file."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def end_users(folder: Path, patience: float) -> None:
    """Ends the processes of the folder's Ray that do not end by themselves within `patience` seconds."""
    deadline = time.monotonic() + patience
    while pids := _found(lambda entry: _uses(entry, folder)):
        if time.monotonic() >= deadline:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() >= deadline + PATIENCE:  # one that the kernel does not let go
                return
        time.sleep(0.1)


def _found(whose: Callable[[Path], bool]) -> list[int]:
    """Numbers of this user's other processes for which `whose` (of their /proc entry) holds."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == os.getuid() and int(entry.name) != os.getpid() and whose(entry):
                found.append(int(entry.name))
    return found


def _uses(entry: Path, folder: Path) -> bool:
    return f"TMPDIR={temporary(folder)}".encode() in (entry / "environ").read_bytes().split(b"\0")


def _names(entry: Path, folder: Path) -> bool:
    return f"{folder}".encode() in (entry / "cmdline").read_bytes()


def watch(driver: int, folder: Path) -> None:
    while os.getppid() == driver:
        time.sleep(0.5)
    end_users(folder, 0.0)
    remove(folder)


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]))
