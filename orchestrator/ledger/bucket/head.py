"""A group's head: its owner, epoch and files. One small object, replaced only by compare-and-swap."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.errors import RemoteError
from orchestrator.files.canonical import digest
from orchestrator.ledger.bucket.bucket import Bucket, Found

FORMAT = 1


LEASE = 60.0
"""Seconds without a heartbeat after which an owner counts as dead, by the server's clock."""
BEAT = 15.0
TRIES = 4
"""Attempts at finding a file in newer heads if its object is gone."""


@dataclass(frozen=True)
class Entry:
    """A file: sha256 and size in bytes of its content, and the object that holds it."""

    sha256: str
    bytes: int
    object: str


@dataclass(frozen=True)
class Head:
    """`group`: RUN16 or sweeps/NAME; `owner`: its last owner (host, pid, boot_id, start_time, token); `beat`: number of writes."""

    group: str
    epoch: int = 0
    beat: int = 0
    held: bool = False
    owner: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Entry] = field(default_factory=dict)

    @property
    def token(self) -> str:
        return str(self.owner.get("token", ""))

    def next(self, **changes: Any) -> Head:
        return replace(self, beat=self.beat + 1, **changes)

    def encode(self) -> bytes:
        body: dict[str, Any] = {"format": FORMAT, **asdict(self)}
        return json.dumps(body | {"digest": digest(body)}, sort_keys=True, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Head:
        """ValueError for anything but an intact head of this format."""
        body = dict(json.loads(data))
        stated = body.pop("digest", None)
        if stated != digest(body) or body.pop("format") != FORMAT:
            raise ValueError("not a whole head")
        files = {name: Entry(**entry) for name, entry in body.pop("files").items()}
        return cls(files=files, **body)


def name_of(group: str) -> str:
    """Name of the object that is the group's head."""
    return f"heads/{group}.json"


def group_of(name: str) -> str:
    return name.removeprefix("heads/").removesuffix(".json")


def read(bucket: Bucket, group: str) -> tuple[Head, Found] | None:
    """Reads a head; None if the group was never taken. RemoteError if it is damaged, which only the bucket's user can resolve."""
    answer = bucket.get(name_of(group))
    if answer is None:
        return None
    try:
        head = Head.decode(answer[0])
    except (ValueError, TypeError, KeyError) as error:
        raise RemoteError(f"{bucket.url}/{name_of(group)}: is no head of this program ({type(error).__name__})") from None
    return head, answer[1]


def described(head: Head) -> str:
    """Describes the last owner of the group."""
    return f"process {head.owner.get('pid')} on {head.owner.get('host')} (epoch {head.epoch})"


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def names_of(entries: Iterable[Entry]) -> set[str]:
    return {entry.object for entry in entries}
