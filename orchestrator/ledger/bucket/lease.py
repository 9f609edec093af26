"""The claim of a group, and a claim that this process holds: a thread uploads changed files and renews it until it is released.

A claim is one small object that says which process may write the group. It is replaced only by a conditional PUT.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, repeat
from typing import Any

from orchestrator.errors import FencedError, LockedError, RemoteError
from orchestrator.ledger.bucket.bucket import Bucket, Found, LostRace
from orchestrator.ledger.bucket.group import claim_of, files_in
from orchestrator.ledger.bucket.index import Stat, exclusive, stat_of
from orchestrator.ledger.run_lock import identity, is_over

Mirror = Any
"""`orchestrator.ledger.bucket.mirror.Mirror`, which imports this module."""

LEASE = 60.0
"""Seconds without a renewal after which an owner counts as dead, by the server's clock."""
BEAT = 15.0
"""Seconds between two renewals."""
POLL = 1.0
"""Seconds between two scans of the folder."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds before each retry; the last value repeats."""
PATIENCE = "NMT_REMOTE_PATIENCE"
"""Environment variable: seconds (default 120) to wait for the server when a lock is released."""


@dataclass(frozen=True)
class Claim:
    """owner: host, pid, boot_id and start_time of a process. token: of this acquisition. epoch: counts owners. beat: counts renewals."""

    owner: dict[str, Any]
    token: str
    epoch: int = 1
    beat: int = 1
    held: bool = True

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    def describe(self) -> str:
        return f"process {self.owner.get('pid')} on {self.owner.get('host')} (epoch {self.epoch})"


def read(bucket: Bucket, group: str) -> tuple[Claim, Found] | None:
    """Reads a claim; None if the group was never taken. RemoteError if the object is damaged."""
    answer = bucket.get(claim_of(group))
    if answer is None:
        return None
    try:
        return Claim(**json.loads(answer[0])), answer[1]
    except (ValueError, TypeError) as error:
        raise RemoteError(f"{bucket.url}/{claim_of(group)}: is no claim of this program ({type(error).__name__})") from None


def write(bucket: Bucket, group: str, claim: Claim, etag: str | None) -> str:
    """Writes a claim if the stored one has `etag` (None: if there is none) and returns its ETag. LostRace if it has another."""
    try:
        return bucket.put_if(claim_of(group), claim.encode(), etag)
    except (LostRace, RemoteError):
        with suppress(RemoteError):  # the write may have succeeded although its answer was lost
            answer = read(bucket, group)
            if answer is not None and answer[0] == claim:
                return answer[1].etag
        raise


def take(mirror: Mirror, group: str, *, steal: bool, timeout: float) -> Lease:
    """Claims a group and makes the copy the newest state. LockedError names a live owner. RemoteError if the server does not answer."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            lease = _take(mirror, group, steal)
            break
        except LockedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL)
    try:
        lease.refresh()
        lease.publish()  # what only this copy has; other workers of the run may read it from the bucket
    except BaseException:
        with suppress(FencedError, RemoteError):  # the next owner need not wait until the claim expires
            lease.beat(held=False)
        raise
    lease.thread.start()
    return lease


def _take(mirror: Mirror, group: str, steal: bool) -> Lease:
    mirror.check_server()
    answer = read(mirror.bucket, group)
    claim, before = Claim(identity(), secrets.token_hex(8)), None
    if answer is not None:
        before, found = answer
        free = steal or not before.held or is_over(before.owner) or before.owner == identity()
        if not free and (mirror.server_now() - found.modified).total_seconds() < LEASE:
            raise LockedError(f"{mirror.url}/{group}: locked by {before.describe()}")
        claim = replace(claim, epoch=before.epoch + 1)
    try:
        etag = write(mirror.bucket, group, claim, None if answer is None else answer[1].etag)
    except LostRace:
        raise LockedError(f"{mirror.url}/{group}: another process took it just now") from None
    return Lease(mirror, group, claim, etag, before)


class Lease:
    """A group that this process has. before: the claim of the previous owner. lost: why nothing more is uploaded, once another has it."""

    def __init__(self, mirror: Mirror, group: str, claim: Claim, etag: str, before: Claim | None) -> None:
        self.mirror, self.group, self.claim, self.etag, self.before = mirror, group, claim, etag, before
        self.lost: str | None = None
        self._stop, self._pid, self._beaten = threading.Event(), os.getpid(), time.monotonic()
        self.thread = threading.Thread(target=self._run, name=f"remote-{group}", daemon=True)
        self._seen: dict[str, Stat | None] = {}

    def refresh(self) -> None:
        """Makes the copy the newest state: it is already if it had the group last."""
        with exclusive(self.mirror.root, self.group) as index:
            ours = self.before is None or self.before.token == index.token
            if not ours and index.token:
                assert self.before is not None
                print(f"{self._where}: resumes from what {self.before.describe()} uploaded", file=sys.stderr)
            self.mirror.download(self.group, index, ours=ours, journal=True)
            index.token, index.claim, index.held = self.claim.token, self.etag, False
        (self.mirror.root / f"{self.group}.stop").unlink(missing_ok=True)  # it was meant for the previous owner

    def check(self) -> None:
        """FencedError if another process took the group."""
        if self.lost is not None:
            raise FencedError(f"{self._where}: {self.lost}; nothing more is written")

    def publish(self) -> None:
        """Renews the claim, then uploads. FencedError if another process has the group; RemoteError may be retried."""
        self.check()
        seen = self._state()
        self.beat()
        self.mirror.upload(self.group, self._beat_if_due)
        self._seen = seen

    def beat(self, *, held: bool = True) -> None:
        """Renews the claim (`held` False: gives it up). FencedError if another process has the group."""
        claim = replace(self.claim, beat=self.claim.beat + 1, held=held)
        try:
            self.etag = write(self.mirror.bucket, self.group, claim, self.etag)
        except LostRace:
            answer = read(self.mirror.bucket, self.group)
            now = "its claim was removed" if answer is None else f"now {answer[0].describe()}"
            self.lost = f"epoch {self.claim.epoch} is over, {now}"
            self.check()
        self.claim, self._beaten = claim, time.monotonic()

    def _beat_if_due(self) -> None:
        if time.monotonic() - self._beaten >= BEAT:
            self.beat()

    def release(self, *, quiet: bool = False) -> None:
        """Uploads the rest and gives the claim up. RemoteError if the server stayed unreachable (`quiet`: a warning on stderr)."""
        if os.getpid() != self._pid:
            return
        self._stop.set()
        if self.thread.is_alive():
            self.thread.join()
        reason = self._finish(float(os.environ.get(PATIENCE, "120")))
        if reason is not None:
            line = f"{reason}; not published: {self.group}; the same command publishes it later from {self.mirror.root}"
            if not quiet:
                raise RemoteError(line)
            print(f"warning: {line}", file=sys.stderr)

    def _finish(self, patience: float) -> str | None:
        """Returns why the group could not be released; None if it was, or if another process has it (`check` reports that)."""
        deadline = time.monotonic() + patience
        for attempt, pause in enumerate(chain(PAUSES, repeat(PAUSES[-1]))):
            try:
                self.publish()
                self.beat(held=False)
                return None
            except FencedError:
                return None
            except (RemoteError, OSError) as error:
                if time.monotonic() + pause > deadline:
                    return str(error)
                if attempt == 0:
                    print(f"{error}; trying again for {patience:.0f} s", file=sys.stderr)
                time.sleep(pause)
        return None

    def _run(self) -> None:
        failures, pause = 0, POLL
        while not self._stop.wait(pause):
            try:
                if self._due():
                    self.publish()
                    self.mirror.pull_followed()
                    if failures:
                        print(f"{self._where}: published again", file=sys.stderr)
                failures, pause = 0, POLL
            except FencedError as error:
                print(f"error: {error}", file=sys.stderr)
                return
            except (RemoteError, OSError) as error:
                if not failures:
                    print(f"warning: {error}; the work continues and is published later", file=sys.stderr)
                pause = PAUSES[min(failures, len(PAUSES) - 1)]
                failures += 1

    def _due(self) -> bool:
        """Returns whether a file changed, or the last renewal is a while ago."""
        return time.monotonic() - self._beaten >= BEAT or self._state() != self._seen

    def _state(self) -> dict[str, Stat | None]:
        """Of the group's files, except append-only ones."""
        names = [name for name in files_in(self.mirror.root, self.group) if not name.endswith(".jsonl")]
        return {name: stat_of(self.mirror.root / name) for name in names}

    @property
    def _where(self) -> str:
        return f"{self.mirror.url}/{self.group}"
