import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import orchestrator
from orchestrator.errors import FencedError, LockedError
from orchestrator.ledger.run_lock import RunLock, owner

HOLD = """
import pathlib, sys, time
from orchestrator.ledger.run_lock import RunLock
lock = RunLock(pathlib.Path(sys.argv[1]), "row").acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """A process that holds tmp_path/run/lock."""
    environment = {**os.environ, "PYTHONPATH": str(Path(orchestrator.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run" / "lock")], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_loser_is_told_the_owner(tmp_path, other):
    with pytest.raises(LockedError, match=f"process {other.pid} on ") as caught:
        RunLock(tmp_path / "run" / "lock").acquire()
    assert "\n" not in str(caught.value)
    assert owner(tmp_path / "run" / "lock")["pid"] == other.pid


def test_the_umask_decides_who_may_write(tmp_path):
    """A folder of a group works with umask 002."""
    before = os.umask(0o002)
    try:
        with RunLock(tmp_path / "lock"):
            assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o664}
    finally:
        os.umask(before)


@pytest.mark.parametrize(("lock", "owned"), [("run/lock", "run"), ("sweeps/grid.lock", "sweeps/grid"), (".lifecycle.lock", "")])
def test_what_is_locked_is_named(tmp_path, lock, owned):
    with RunLock(tmp_path / lock), pytest.raises(LockedError) as caught:
        RunLock(tmp_path / lock).acquire()
    assert str(caught.value).startswith(f"{tmp_path / owned}: locked by process {os.getpid()} ")


def test_killed_owner_is_taken_over(tmp_path, other):
    other.kill()
    other.wait()
    assert owner(tmp_path / "run" / "lock") is None
    with RunLock(tmp_path / "run" / "lock") as lock:
        assert lock.epoch == 2
        lock.check()
        assert owner(lock.path)["pid"] == os.getpid()
    assert owner(tmp_path / "run" / "lock") is None


def test_waits_for_the_owner(tmp_path, other):
    lock = RunLock(tmp_path / "run" / "lock")
    with pytest.raises(LockedError):
        lock.acquire(timeout=0.2)
    other.kill()
    lock.acquire(timeout=20)
    lock.release()


def test_stopped_owner_is_fenced(tmp_path, other):
    """A stopped process keeps its flock: only a newer attempt at its work takes it, and the sleeper's epoch is over when it wakes."""
    os.kill(other.pid, signal.SIGSTOP)
    for stranger in ("", "another row"):
        with pytest.raises(LockedError):
            RunLock(tmp_path / "run" / "lock", stranger).acquire()
    thief = RunLock(tmp_path / "run" / "lock", "row").acquire()
    assert thief.epoch == 2
    thief.check()
    os.kill(other.pid, signal.SIGCONT)
    with pytest.raises(LockedError, match=f"process {os.getpid()} "):
        RunLock(tmp_path / "run" / "lock").acquire()
    thief.release()


def test_same_epoch_by_another_is_refused(tmp_path):
    lock = RunLock(tmp_path / "lock").acquire()
    record = json.loads(lock.record_path.read_text())
    lock.record_path.write_text(json.dumps({**record, "token": "somebody else"}))
    with pytest.raises(FencedError):
        lock.check()
    lock.record_path.unlink()
    with pytest.raises(FencedError):
        lock.check()


def test_file_replaced_between_open_and_flock(tmp_path, monkeypatch):
    """The flock of a file that is no longer there excludes nobody: the one that is there is taken."""
    path, real = tmp_path / "lock", fcntl.flock

    def race(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", race)
    with RunLock(path), pytest.raises(LockedError):
        RunLock(path).acquire()


def test_children_do_not_keep_it(tmp_path):
    """Neither a forked child nor an executed one keeps the lock of an owner that has let go."""
    lock = RunLock(tmp_path / "lock").acquire()
    executed = subprocess.Popen(["sleep", "30"], close_fds=False)
    started, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(tell, b".")
        time.sleep(30)
        os._exit(0)
    try:
        os.read(started, 1)
        lock.release()
        RunLock(tmp_path / "lock").acquire().release()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        executed.kill()
        executed.wait()


def test_forked_child_may_check_but_does_not_release(tmp_path, forked):
    with RunLock(tmp_path / "lock") as lock:

        def work() -> None:
            lock.check()
            lock.release()

        assert forked(work) == 0
        lock.check()
        with pytest.raises(LockedError):
            RunLock(tmp_path / "lock").acquire()


@pytest.mark.parametrize("point", ["pre_write", "pre_rename", "post_rename"])
def test_killed_while_taking_it(tmp_path, forked, point):
    assert forked(lambda: RunLock(tmp_path / "lock").acquire(), f"lock_{point}:kill") == -signal.SIGKILL
    with RunLock(tmp_path / "lock") as lock:
        assert lock.epoch == (2 if point == "post_rename" else 1)
