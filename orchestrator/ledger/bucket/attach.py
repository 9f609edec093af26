"""Attaches this process to a bucket, given by `--results` or by the URL in a worker's task."""

import re
from pathlib import Path

from orchestrator.errors import RemoteError, UserError
from orchestrator.files.folders import checked
from orchestrator.ledger import object_store
from orchestrator.ledger.bucket.bucket import Bucket, check_url
from orchestrator.ledger.bucket.mirror import Mirror, scratch_of


def place(value: str | Path) -> Path:
    """Returns `--results` as a folder: itself, or the updated scratch copy of the bucket that it names.

    UserError (one line) for a URL that names no bucket, a server that does not answer, and the path of a scratch copy.
    """
    text = str(value)
    if re.match("[A-Za-z][A-Za-z0-9+.-]*://|s3:", text) and not text.startswith("file://"):
        mirror = opened(text)
        try:
            mirror.pull_all()
        except RemoteError as error:
            raise UserError(f"--results {error}") from None
        return mirror.root
    path = checked(text.removeprefix("file://"), "--results")
    marker = path / ".remote" / "url"
    if marker.is_file():
        raise UserError(f"--results {path}: is the scratch copy of {marker.read_text().strip()}; expected that URL")
    return path


def opened(url: str) -> Mirror:
    """Registers the mirror of a bucket in this process. Fetches nothing. UserError if the `s3` extra is not installed."""
    url = check_url(url)
    root = scratch_of(url)
    if (known := object_store.mirror_of(root)) is not None:
        return known
    (root / ".remote").mkdir(parents=True, exist_ok=True)
    (root / ".remote" / "url").write_text(url + "\n")
    mirror = Mirror(root, Bucket.open(url))
    object_store.register(mirror)
    return mirror
