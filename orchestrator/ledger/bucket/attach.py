"""Attaches this process to a bucket, given by `--results` or by the URL in a worker's task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.files.folders import checked
from orchestrator.ledger import object_store
from orchestrator.ledger.bucket import group as groups
from orchestrator.ledger.bucket import orphans
from orchestrator.ledger.bucket.acquire import take
from orchestrator.ledger.bucket.bucket import Bucket, check_url
from orchestrator.ledger.bucket.lease import Lease
from orchestrator.ledger.bucket.mirror import Mirror, scratch_of

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(?:s3|gs|az):")


class AttachedMirror(Mirror):
    """A mirror whose groups can be leased."""

    def lease(self, lock: Path, *, steal: bool, timeout: float) -> Lease | None:
        group = groups.group_of_lock(lock, self.root)
        return None if group is None else take(self, group, steal=steal, timeout=timeout)

    def orphans(self, *, delete: bool) -> Sequence[orphans.Orphan]:
        return orphans.find(self, delete=delete)


def connect(url: str) -> AttachedMirror:
    """Opens the bucket of a URL without a request. UserError if the URL names no bucket or the `s3` extra is not installed."""
    url = check_url(url)
    root = scratch_of(url)
    (root / ".remote").mkdir(parents=True, exist_ok=True)
    (root / ".remote" / "url").write_text(url + "\n")
    return AttachedMirror(root, Bucket.open(url))


def place(value: str | Path) -> Path:
    """Returns `--results` as a folder: itself, or the updated scratch copy of the bucket that it names.

    UserError (one line) for a URL that names no bucket, a server that does not answer, and the path of a scratch copy.
    """
    text = str(value)
    if _URL.match(text) is None or text.startswith("file://"):
        path = checked(text.removeprefix("file://"), "--results")
        _refuse_scratch(path)
        return path
    mirror = opened(text)
    mirror.pull_all()
    return mirror.root


def opened(url: str) -> object_store.Mirror:
    """The mirror of a bucket, registered in this process. Fetches nothing."""
    known = object_store.registered(url)
    if known is None:
        known = connect(url)
        object_store.register(known)
    return known


def _refuse_scratch(path: Path) -> None:
    marker = path / ".remote" / "url"
    if marker.is_file():
        raise UserError(f"--results {path}: is the scratch copy of {marker.read_text().strip()}; expected that URL")
