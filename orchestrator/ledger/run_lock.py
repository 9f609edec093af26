"""File locks with fencing: one owner per run.

Ownership is an `flock` on the file `lock`. The kernel drops it when the owner dies, so no stale lock has to be detected. The file
`lock.json` beside it describes the owner and holds a fencing epoch that grows with each acquisition: a process that lost its lock
without noticing (stopped while a newer attempt took it, or the file replaced on shared storage) sees a newer epoch in `check()` and must
not write any more. On shared storage the record may name another host; the flock still decides, the record only describes the owner.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import socket
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from orchestrator.errors import FencedError, LockedError, UserError
from orchestrator.files.atomic import write_json
from orchestrator.files.documents import read_object
from orchestrator.ledger import object_store

POLL = 0.05
"""Seconds between two attempts while waiting."""


class RunLock:
    """`with RunLock(run_dir / "lock") as lock:`. `lock.epoch` is the fencing epoch of this acquisition.

    `claim` identifies the piece of work that the owner does. Owners with the same claim are successive attempts at it: a newer one takes
    the lock from an older one, which may still be alive on an unreachable machine.
    """

    def __init__(self, path: Path, claim: str = "") -> None:
        self.path, self.record_path, self.claim = path, path.with_name(f"{path.name}.json"), claim
        named = path.suffix == ".lock" and not path.name.startswith(".")
        self.owned = path.with_suffix("") if named else path.parent  # SWEEP.lock is that of SWEEP, `lock` that of its folder
        self.epoch, self._token, self._descriptor = 0, "", -1
        self._lease: Any = None  # if the folder is the scratch copy of a bucket
        _known.add(self)

    def acquire(self, *, timeout: float = 0.0) -> "RunLock":
        """Acquires the lock. `timeout`: seconds to wait for a live owner.

        LockedError names the owner. UserError if the file system does not support locks.
        """
        deadline = time.monotonic() + timeout
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while not self._try():
            if self.claim and record_of(self.path).get("claim") == self.claim:
                self.path.unlink(missing_ok=True)
                continue
            if time.monotonic() >= deadline:
                time.sleep(POLL)  # the record is written a moment after the lock is acquired
                raise LockedError(f"{self.owned}: locked by {describe(owner(self.path) or {})}")
            time.sleep(POLL)
        try:
            if (mirror := object_store.mirror_of(self.path)) is not None:
                self._lease = mirror.lease(self.path, timeout=max(0.0, deadline - time.monotonic()))
            self.epoch, self._token = record_of(self.path).get("epoch", 0) + 1, secrets.token_hex(8)
            record = {**identity(), "epoch": self.epoch, "token": self._token, "held": True}
            write_json(self.record_path, record | ({"claim": self.claim} if self.claim else {}), points="lock")
        except BaseException:
            self._close()
            raise
        return self

    def check(self) -> None:
        """Raises FencedError unless this acquisition is still the newest. Reads one small file."""
        if not self._token:
            raise FencedError(f"{self.owned}: the lock is not held")
        if self._lease is not None:
            self._lease.check()
        record = record_of(self.path)
        if (record.get("epoch"), record.get("token")) != (self.epoch, self._token):
            raise FencedError(f"{self.owned}: epoch {self.epoch} is over, now {describe(record)}; nothing more is written")

    def release(self, *, quiet: bool = False) -> None:
        """Releases the lock if it is held. RemoteError if not everything could be published to the bucket (`quiet`: only a warning)."""
        lease, self._lease = self._lease, None
        try:
            if lease is not None and self._descriptor >= 0:
                lease.release(quiet=quiet)
        finally:
            if self._descriptor >= 0:
                with contextlib.suppress(FencedError, OSError):
                    self.check()
                    write_json(self.record_path, {**record_of(self.path), "held": False}, check=self.check)
            self._token = ""
            self._close()

    def _try(self) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except PermissionError:
            raise UserError(f"{self.path}: may not be written; expected your own files, or a folder whose group may (umask 002)") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                same = os.path.samestat(os.fstat(descriptor), self.path.stat())
            except FileNotFoundError:
                same = False
            if not same:  # taken by a newer attempt or deleted between open and flock
                return self._try()
            self._descriptor, descriptor = descriptor, -1
            return True
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise UserError(f"{self.path}: this file system has no locks ({error.strerror}); put the results on one that has") from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "RunLock":
        return self if self._descriptor >= 0 else self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release(quiet=error is not None)


def owner(path: Path) -> dict[str, Any] | None:
    """Returns the record of the live owner of the lock file `path`, None if there is none. Acquires no lock.

    A process of another host counts as alive, and one of an earlier boot of this machine as dead.
    """
    record = record_of(path)
    earlier_boot = record.get("host") == socket.gethostname() and record.get("boot_id") not in (None, _boot_id())
    return record if record.get("held") and not earlier_boot and not is_over(record) else None


def is_over(record: dict[str, Any]) -> bool:
    """Returns whether the record's process ran on this machine in this boot and has ended. False for processes of other machines."""
    here = record.get("host") == socket.gethostname() and record.get("boot_id") is not None and record["boot_id"] == _boot_id()
    return here and _start_time(record.get("pid", -1)) != record.get("start_time")


def record_of(path: Path) -> dict[str, Any]:
    """Returns the record beside the lock file `path`, whether its owner is alive or not; {} if there is none."""
    return read_object(path.with_name(f"{path.name}.json")) or {}


_known: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _close_inherited() -> None:
    """Closes the descriptors that a forked child inherits, or it would hold the lock of a dead parent."""
    for lock in list(_known):
        lock._close()


os.register_at_fork(after_in_child=_close_inherited)


def identity() -> dict[str, Any]:
    """Identifies this process as lock records do: host, pid, boot_id, start_time."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "boot_id": _boot_id(), "start_time": _start_time(pid)}


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _start_time(pid: int) -> int | None:
    """Start time of a process in clock ticks after boot (field 22 of /proc/PID/stat); None if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def describe(record: dict[str, Any]) -> str:
    if not record:
        return "a process that has not signed it"
    return f"process {record.get('pid')} on {record.get('host')} (epoch {record.get('epoch')})"
