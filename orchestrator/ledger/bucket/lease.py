"""A claim that this process holds: a thread uploads changed files and renews the claim until it is released."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING

from orchestrator.errors import FencedError, LockedError, RemoteError
from orchestrator.ledger.bucket import claim as claims
from orchestrator.ledger.bucket.bucket import LostRace
from orchestrator.ledger.bucket.claim import Claim
from orchestrator.ledger.bucket.group import files_in
from orchestrator.ledger.bucket.index import stat_of
from orchestrator.ledger.run_lock import identity, is_over

if TYPE_CHECKING:
    from orchestrator.ledger.bucket.mirror import Mirror

POLL = 1.0
"""Seconds between two scans of the folder."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds before each retry; the last value repeats."""
PATIENCE = "NMT_REMOTE_PATIENCE"
"""Environment variable: seconds (default 120) to wait for the server when a lock is released."""


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
    lease.start()
    return lease


def _take(mirror: Mirror, group: str, steal: bool) -> Lease:
    mirror.check_server()
    answer = claims.read(mirror.bucket, group)
    claim, before = Claim(identity(), secrets.token_hex(8)), None
    if answer is not None:
        before, found = answer
        free = steal or not before.held or is_over(before.owner) or before.owner == identity()
        if not free and (mirror.server_now() - found.modified).total_seconds() < claims.LEASE:
            raise LockedError(f"{mirror.url}/{group}: locked by {before.describe()}")
        claim = replace(claim, epoch=before.epoch + 1)
    try:
        etag = claims.write(mirror.bucket, group, claim, None if answer is None else answer[1].etag)
    except LostRace:
        raise LockedError(f"{mirror.url}/{group}: another process took it just now") from None
    return Lease(mirror, group, claim, etag, before)


class Lease:
    """A group that this process has. before: the claim of the previous owner. lost: why nothing more is uploaded, once another has it."""

    def __init__(self, mirror: Mirror, group: str, claim: Claim, etag: str, before: Claim | None) -> None:
        self.mirror, self.group, self.claim, self.etag, self.before = mirror, group, claim, etag, before
        self.lost: str | None = None
        self._stop, self._pid, self._beaten = threading.Event(), os.getpid(), time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"remote-{group}", daemon=True)
        self._seen: dict[str, tuple[int, int] | None] = {}

    def start(self) -> None:
        self._thread.start()

    def refresh(self) -> None:
        """Makes the copy the newest state: it is already if it had the group last."""
        with self.mirror.indexes.exclusive(self.group):
            index = self.mirror.indexes.read(self.group)
            ours = self.before is None or self.before.token == index.token
            if not ours and index.token:
                assert self.before is not None
                print(f"{self._where}: resumes from what {self.before.describe()} uploaded", file=sys.stderr)
            self.mirror.download(self.group, index, ours=ours, journal=True)
            index.token, index.claim, index.held = self.claim.token, self.etag, False
            self.mirror.indexes.write(self.group, index)
        (self.mirror.root / f"{self.group}.stop").unlink(missing_ok=True)  # it was meant for the previous owner

    def check(self) -> None:
        """FencedError if another process took the group."""
        if self.lost is not None:
            raise FencedError(f"{self._where}: {self.lost}; nothing more is written")

    def publish(self) -> None:
        """Renews the claim, then uploads. FencedError if another process has the group; RemoteError may be retried."""
        self.check()
        paths = [name for name in files_in(self.mirror.root, self.group) if not name.endswith(".jsonl")]
        seen = {name: stat_of(self.mirror.root / name) for name in paths}
        self.beat()
        self.mirror.upload(self.group, self._beat_if_due)
        self._seen = seen

    def beat(self, *, held: bool = True) -> None:
        """Renews the claim (`held` False: gives it up). FencedError if another process has the group."""
        claim = replace(self.claim, beat=self.claim.beat + 1, held=held)
        try:
            self.etag = claims.write(self.mirror.bucket, self.group, claim, self.etag)
        except LostRace:
            answer = claims.read(self.mirror.bucket, self.group)
            now = "its claim was removed" if answer is None else f"now {answer[0].describe()}"
            self.lost = f"epoch {self.claim.epoch} is over, {now}"
            self.check()
        self.claim, self._beaten = claim, time.monotonic()

    def _beat_if_due(self) -> None:
        if time.monotonic() - self._beaten >= claims.BEAT:
            self.beat()

    def release(self, *, quiet: bool = False) -> None:
        """Uploads the rest and gives the claim up. RemoteError if the server stayed unreachable (`quiet`: a warning on stderr)."""
        if os.getpid() != self._pid:
            return
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        reason = self._finish(float(os.environ.get(PATIENCE, "120")))
        if reason is not None:
            line = f"{reason}; not published: {self.group}; the same command publishes it later from {self.mirror.root}"
            if not quiet:
                raise RemoteError(line)
            print(f"warning: {line}", file=sys.stderr)

    def _finish(self, patience: float) -> str | None:
        """Returns why the group could not be released; None if it was, or if another process has it (`check` reports that)."""
        deadline, told = time.monotonic() + patience, False
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            try:
                self.publish()
                self.beat(held=False)
                return None
            except FencedError:
                return None
            except (RemoteError, OSError) as error:
                if time.monotonic() + pause > deadline:
                    return str(error)
                if not told:
                    print(f"{error}; trying again for {patience:.0f} s", file=sys.stderr)
                told = True
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
        """Returns whether a file other than an append-only one changed, or the last renewal is a while ago."""
        root = self.mirror.root
        names = [name for name in files_in(root, self.group) if not name.endswith(".jsonl")]
        return time.monotonic() - self._beaten >= claims.BEAT or {name: stat_of(root / name) for name in names} != self._seen

    @property
    def _where(self) -> str:
        return f"{self.mirror.url}/{self.group}"
