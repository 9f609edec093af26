"""Content hashes and counts of lines of corpus files, made once per (path, size, time of change).

Large files are remembered on disk too, under `$XDG_CACHE_HOME/nmt-ablate/hashes`; a cache that cannot be used is no error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path

from orchestrator.data.corpus import content_of
from orchestrator.errors import UserError

LARGE = 16 << 20
_known: dict[tuple[str, int, int], tuple[str, int]] = {}


def file_hash(path: Path) -> str:
    """sha256 of the uncompressed content. UserError where the file cannot be read."""
    return _content(path)[0]


def file_lines(path: Path) -> int:
    """Lines of the uncompressed content; errors as `file_hash`."""
    return _content(path)[1]


def _content(path: Path) -> tuple[str, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    stamp = str(path.resolve()), status.st_size, status.st_mtime_ns
    if stamp not in _known:
        remembered = _place(stamp) if status.st_size >= LARGE else None
        found = _recall(remembered)
        if found is None:
            found = content_of(path)
            _remember(remembered, found)
        _known[stamp] = found
    return _known[stamp]


def _place(stamp: tuple[str, int, int]) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "nmt-ablate" / "hashes" / hashlib.sha256(repr(stamp).encode()).hexdigest()


def _recall(place: Path | None) -> tuple[str, int] | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if place is not None and re.fullmatch("[0-9a-f]{64} [0-9]{1,18}", text := place.read_text(encoding="ascii")):
            return text[:64], int(text[65:])
    return None


def _remember(place: Path | None, content: tuple[str, int]) -> None:
    if place is None:
        return
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        tmp = place.with_name(f"{place.name}.{secrets.token_hex(4)}.tmp")
        tmp.write_text(f"{content[0]} {content[1]}", encoding="ascii")
        tmp.replace(place)
