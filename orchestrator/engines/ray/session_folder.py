"""The session folder of a Ray that a sweep starts: sockets, logs and temporary files. It is removed however the sweep ends.

Run as a program with a process id and a folder, this module watches that process: once it is gone, it kills the remaining processes of
its Ray and removes the folder. It imports only the standard library, so that the watcher starts at once and stays small.
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
"""Seconds within which the processes of a Ray that was shut down should exit by themselves."""


def temporary(folder: Path) -> Path:
    """The TMPDIR of Ray's processes. It identifies them, as no other process has it in its environment."""
    return folder / "tmp"


def session(folder: Path) -> Path:
    """Ray's own folder. Each of Ray's processes sets it and its subfolders to 0777; the folder around it stays at 0700."""
    return folder / "r"


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Context: a new folder, removed at the end or when this process dies. Folders of dead processes are removed first."""
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
        pass_fds=[lock],  # the watcher holds the lock too
        start_new_session=True,  # not interrupted by Ctrl-C in the terminal
    )
    try:
        yield folder
    finally:
        kill_users(folder, PATIENCE)
        remove(folder)
        watcher.kill()
        watcher.wait()
        os.close(lock)


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):  # removed by a concurrent start, which found it without an owner
            temporary(folder).mkdir()
            return folder, lock
        os.close(lock)


def remove_dead(parent: Path) -> None:
    """Removes folders without a live owner: no sweep holds the lock, and no process has the folder in its environment or command line."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _processes(lambda entry, folder=folder: _uses(entry, folder) or _names(entry, folder)):  # type: ignore[misc]
                remove(folder)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


def remove(folder: Path) -> None:
    """Removes the folder, retrying for a second, since a process that exits may still write a file."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def users(folder: Path) -> list[int]:
    """Ids of the processes of the folder's Ray."""
    return _processes(lambda entry: _uses(entry, folder))


def kill_users(folder: Path, patience: float) -> None:
    """Kills the processes of the folder's Ray that do not exit by themselves within `patience` seconds."""
    deadline = time.monotonic() + patience
    while pids := users(folder):
        if time.monotonic() >= deadline:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() >= deadline + PATIENCE:  # not killable, e.g. blocked in the kernel
                return
        time.sleep(0.1)


def _processes(matches: Callable[[Path], bool]) -> list[int]:
    """Ids of this user's other processes whose /proc entry `matches`."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == os.getuid() and int(entry.name) != os.getpid() and matches(entry):
                pids.append(int(entry.name))
    return pids


def _uses(entry: Path, folder: Path) -> bool:
    """By its environment; for Ray's agents, whose title overwrites their environment, by their open files."""
    if f"TMPDIR={temporary(folder)}".encode() in (entry / "environ").read_bytes().split(b"\0"):
        return True
    if not (entry / "cmdline").read_bytes().startswith(b"ray::"):
        return False
    return any(str(link.readlink()).startswith(f"{folder}/") for link in (entry / "fd").iterdir())


def _names(entry: Path, folder: Path) -> bool:
    return f"{folder}".encode() in (entry / "cmdline").read_bytes()


def watch(driver: int, folder: Path) -> None:
    while os.getppid() == driver:
        time.sleep(0.5)
    kill_users(folder, 0.0)
    remove(folder)


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]))
