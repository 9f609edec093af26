"""A claim of a group that this process holds: one thread renews it, another uploads changed files, until it is released.

A claim is one small object, a record like that of `run_lock` with a token of the acquisition. Only a conditional PUT replaces it.
"""

import json
import os
import secrets
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from orchestrator.errors import FencedError, LockedError, RemoteError
from orchestrator.ledger.bucket.bucket import Bucket, LostRace, Meta
from orchestrator.ledger.layout import claim_of
from orchestrator.ledger.run_lock import describe, identity, is_over

Mirror = Any
"""`orchestrator.ledger.bucket.mirror.Mirror`, which imports this module."""

LEASE = timedelta(seconds=60)
"""Without a renewal after which an owner counts as dead, by the server's clock."""
BEAT = 15.0
"""Seconds between two renewals."""
POLL = 1.0
"""Seconds between two attempts at a claim or an upload that failed."""
PATIENCE = "NMT_REMOTE_PATIENCE"
"""Environment variable: seconds (default 120) to wait for the server when a lock is released."""


def read(bucket: Bucket, group: str) -> tuple[dict[str, Any], Meta | None]:
    """Returns (claim, metadata of its object), ({}, None) if the group was never taken. RemoteError if the object is damaged."""
    answer = bucket.get(claim_of(group), small=True)
    if answer is None:
        return {}, None
    try:
        return dict(json.loads(answer[0])), answer[1]
    except (ValueError, TypeError) as error:
        raise RemoteError(f"{bucket.url}/{claim_of(group)}: is no claim of this program ({type(error).__name__})") from None


def take(mirror: Mirror, group: str, timeout: float) -> "Lease":
    """Claims a group and makes the copy the newest state. LockedError names a live owner. RemoteError if the server does not answer."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            lease = Lease(mirror, group)
            break
        except LockedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL)
    try:
        lease.refresh()
        lease.publish()  # what only this copy has; other workers of the run may read it from the bucket
    except BaseException:
        lease.stop()
        with suppress(FencedError, RemoteError):  # the next owner need not wait until the claim expires
            lease.beat(held=False)
        raise
    lease.thread.start()
    return lease


class Lease:
    """A group that this process has. lost: why nothing more is uploaded, once another process has it."""

    def __init__(self, mirror: Mirror, group: str) -> None:
        """Takes the claim. LockedError names a live owner."""
        self.mirror, self.group, self.where = mirror, group, f"{mirror.url}/{group}"
        self.lost: str | None = None
        self._stop, self._pid, self._beaten, self._turn = threading.Event(), os.getpid(), 0.0, threading.Lock()
        self.thread = threading.Thread(target=self._run, name=f"remote-{group}", daemon=True)
        self._renewal = threading.Thread(target=self._renew, name=f"claim-{group}", daemon=True)
        mirror.check_server()
        self.before, meta = read(mirror.bucket, group)
        free = not self.before.get("held") or is_over(self.before) or identity().items() <= self.before.items()
        if not free and mirror.age(meta) < LEASE:
            raise LockedError(f"{self.where}: locked by {describe(self.before)}")
        self.etag = None if meta is None else str(meta["e_tag"])
        self.claim = identity() | {"token": secrets.token_hex(8), "epoch": self.before.get("epoch", 0) + 1, "beat": 0, "held": True}
        try:
            self.beat()
        except FencedError:
            raise LockedError(f"{self.where}: another process took it just now") from None
        self._renewal.start()

    def refresh(self) -> None:
        """Makes the copy the newest state: it is already if it had the group last."""
        with self.mirror.exclusive(self.group) as index:
            self.mirror.download(self.group, index, ours=self.before.get("token") in (None, index.token))
            index.token, index.claim = self.claim["token"], self.etag
        self.mirror.fetch_missing(self.mirror.root / self.group / "journal.jsonl")
        (self.mirror.root / f"{self.group}.stop").unlink(missing_ok=True)  # it was meant for the previous owner

    def check(self) -> None:
        """FencedError if another process took the group."""
        if self.lost is not None:
            raise FencedError(f"{self.where}: {self.lost}; nothing more is written")

    def publish(self) -> None:
        """Renews the claim, then uploads. FencedError if another process has the group; RemoteError may be retried."""
        self.check()
        self.beat()
        self.mirror.upload(self.group, lambda: self.beat() if time.monotonic() - self._beaten >= BEAT else None)

    def beat(self, *, held: bool = True) -> None:
        """Renews the claim (`held` False: gives it up). FencedError if another process has the group."""
        with self._turn:
            claim = self.claim | {"beat": self.claim["beat"] + 1, "held": held}
            try:
                self.etag = self.mirror.bucket.put_if(claim_of(self.group), json.dumps(claim).encode() + b"\n", self.etag)
            except (LostRace, RemoteError) as error:
                now, meta = read(self.mirror.bucket, self.group)
                if now != claim and isinstance(error, LostRace):
                    self.lost = f"epoch {self.claim['epoch']} is over, now {describe(now)}"
                    self.check()
                if now != claim or meta is None:
                    raise
                self.etag = str(meta["e_tag"])  # the write succeeded, its answer was lost
            self.claim, self._beaten = claim, time.monotonic()

    def stop(self) -> None:
        """Ends both threads."""
        self._stop.set()
        for thread in (self.thread, self._renewal):
            if thread.is_alive():
                thread.join()

    def release(self, *, quiet: bool = False) -> None:
        """Uploads the rest and gives the claim up. RemoteError if the server stayed unreachable (`quiet`: a warning on stderr)."""
        if os.getpid() != self._pid:
            return
        self.stop()
        patience = float(os.environ.get(PATIENCE, "120"))
        deadline, reported = time.monotonic() + patience, False
        while True:
            try:
                self.publish()
                self.beat(held=False)
                return
            except FencedError:  # `check` reports it
                return
            except (RemoteError, OSError) as error:
                if time.monotonic() + POLL > deadline:
                    line = f"{error}; not published: {self.group}; the same command publishes it later from {self.mirror.root}"
                    if not quiet:
                        raise RemoteError(line) from None
                    print(f"warning: {line}", file=sys.stderr)
                    return
                if not reported:
                    print(f"{error}; trying again for {patience:.0f} s", file=sys.stderr)
                reported = True
                time.sleep(POLL)

    def _renew(self) -> None:
        """A claim expires in a minute, and an upload or a download may take longer."""
        while self.lost is None and not self._stop.wait(BEAT):
            with suppress(FencedError, RemoteError, OSError):  # `publish` reports them
                self.beat()

    def _run(self) -> None:
        failed = False
        while not self._stop.wait(BEAT):
            try:
                self.publish()
                # a driver shows what other machines upload; of a run, a `.stop` of its sweep may ask this process to end
                self.mirror.pull_all(None if self.group.startswith("sweeps/") else "sweeps")
                failed = False
            except FencedError as error:
                print(f"error: {error}", file=sys.stderr)
                return
            except (RemoteError, OSError) as error:
                if not failed:
                    print(f"warning: {error}; the work continues and is published later", file=sys.stderr)
                failed = True
