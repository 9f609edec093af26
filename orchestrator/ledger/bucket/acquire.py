"""Acquires the lease of a group: raises its epoch by compare-and-swap and updates the local copy."""

from __future__ import annotations

import secrets
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from orchestrator.errors import LockedError, RemoteError
from orchestrator.ledger.bucket import group as groups
from orchestrator.ledger.bucket import head as heads
from orchestrator.ledger.bucket.bucket import Found, LostRace
from orchestrator.ledger.bucket.head import Head, described
from orchestrator.ledger.bucket.lease import POLL, Lease, mine_of
from orchestrator.ledger.run_lock import identity, is_over

if TYPE_CHECKING:
    from orchestrator.ledger.bucket.mirror import Mirror


def take(mirror: Mirror, group: str, *, steal: bool = False, timeout: float = 0.0) -> Lease:
    """Leases the group; the copy is then the newest state. LockedError names a live owner. RemoteError if the server is unreachable."""
    known = mirror.open_leases.pop(group, None)
    if known is not None and known.lost is None:
        known.reopen()
        return known
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _take(mirror, group, steal)
        except (LockedError, LostRace):
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL)


def _take(mirror: Mirror, group: str, steal: bool) -> Lease:
    owner = {**identity(), "token": secrets.token_hex(8)}
    with mirror.indexes.exclusive(group):
        answer = heads.read(mirror.bucket, group)
        index = mirror.indexes.read(group)
        mirror.check_conditions()
        if answer is None:
            head = Head(group, 1, 1, True, owner)
        else:
            before, found = answer
            doubtful = before.held and not steal and not is_over(before.owner)
            if doubtful and (mirror.server_now() - found.modified).total_seconds() < heads.LEASE:
                raise LockedError(f"{mirror.url}/{group}: locked by {described(before)}")
            head = before.next(epoch=before.epoch + 1, held=True, owner=owner)
        try:
            name = heads.name_of(group)
            etag = mirror.bucket.create(name, head.encode()) if answer is None else mirror.bucket.swap(name, head.encode(), answer[1].etag)
        except (LostRace, RemoteError):
            mine = mine_of(mirror, group, head)  # the write may have succeeded although its answer was lost
            if mine is None:
                raise LockedError(f"{mirror.url}/{group}: another process took it just now") from None
            etag = mine.etag
        lease = Lease(mirror, head, etag, index)
        try:
            _adopt(mirror, lease, None if answer is None else answer[0])
        except BaseException:
            lease.abandon()
            raise
    try:
        lease.publish()  # what only this copy has; other workers of the run may read it from the bucket
    except BaseException:
        lease.abandon()
        raise
    lease.start()
    return lease


def _adopt(mirror: Mirror, lease: Lease, before: Head | None) -> None:
    """Makes the copy the newest state: it is already if no other process had the group since, else it is fetched from the bucket."""
    index, head, group = lease.index, lease.head, lease.head.group
    if before is not None and not (index.ahead and index.epoch == before.epoch and mirror.is_here(group, index)):
        if index.mine and index.epoch < before.epoch:
            print(f"{lease.where}: resumes from what {described(before)} published", file=sys.stderr)
        mirror.become(head, Found(heads.name_of(group), 0, lease.etag, datetime.now(UTC)), index)
    index.saw(head, lease.etag)
    index.mine = head.epoch
    mirror.indexes.write(group, index)
    (mirror.root / f"{group}.stop").unlink(missing_ok=True)  # it was meant for the previous owner
    for name, entry in head.files.items():
        if groups.on_demand(name) and not groups.of_tensors(name) and not (mirror.root / name).exists():
            mirror.fetch(name, entry)
