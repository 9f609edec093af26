"""Which commit an uploaded checkout was made from: a small file in it, since .git stays at home."""

from __future__ import annotations

import json
import re
from pathlib import Path

NAME = ".nmt-source.json"
_COMMIT, _DIGEST = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?"), re.compile(r"[0-9a-f]{64}")


def dump(commit: str | None, dirty: str | None) -> bytes:
    return json.dumps({"git_commit": commit, "dirty_sha256": dirty}).encode()


def read(root: Path) -> tuple[str | None, str | None]:
    """(commit, sha256 of what differed from it or None where nothing did). Both None where the file is absent or malformed."""
    try:
        data = json.loads((root / NAME).read_bytes())
        commit, dirty = data["git_commit"], data["dirty_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None
    if not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        return None, None
    return commit, dirty if isinstance(dirty, str) and _DIGEST.fullmatch(dirty) else None
