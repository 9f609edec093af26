"""The claim of a group: one small object that says which process may write the group. It is replaced only by a conditional PUT."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.errors import RemoteError
from orchestrator.ledger.bucket.bucket import Bucket, Found, LostRace
from orchestrator.ledger.bucket.group import claim_of

LEASE = 60.0
"""Seconds without a renewal after which an owner counts as dead, by the server's clock."""
BEAT = 15.0
"""Seconds between two renewals."""


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
