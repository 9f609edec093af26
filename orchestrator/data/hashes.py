"""Content hashes and line counts of corpus files, computed once per (path, size, modification time).

Those of large files are also cached on disk, in `$XDG_CACHE_HOME/nmt-ablate/hashes`; an unusable cache is no error.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

from orchestrator.data.corpus import content_of
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.paths import user_cache

MIN_CACHED_BYTES = 16 << 20
_cache: dict[tuple[str, int, int], tuple[str, int]] = {}


def file_hash(path: Path) -> str:
    """sha256 of the uncompressed content. Raises UserError if the file cannot be read."""
    return _content(path)[0]


def file_lines(path: Path) -> int:
    """Number of lines of the uncompressed content. Raises UserError like `file_hash`."""
    return _content(path)[1]


def _content(path: Path) -> tuple[str, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    stamp = str(path.resolve()), status.st_size, status.st_mtime_ns
    if stamp not in _cache:
        large = status.st_size >= MIN_CACHED_BYTES
        cache = user_cache() / "hashes" / hashlib.sha256(repr(("text without its byte order mark", *stamp)).encode()).hexdigest()
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if large and re.fullmatch("[0-9a-f]{64} [0-9]{1,18}", text := cache.read_text(encoding="ascii")):
                _cache[stamp] = text[:64], int(text[65:])
                return _cache[stamp]
        _cache[stamp] = content_of(path)
        if large:
            with contextlib.suppress(OSError):
                cache.parent.mkdir(parents=True, exist_ok=True)
                atomic.write_text(cache, f"{_cache[stamp][0]} {_cache[stamp][1]}")
    return _cache[stamp]
