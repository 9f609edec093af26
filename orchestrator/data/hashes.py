"""Content hashes and line counts of corpus files, computed once per (path, size, modification time).

Those of large files are also cached on disk, in `$XDG_CACHE_HOME/nmt-ablate/hashes`; an unusable cache is no error.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from pathlib import Path

from orchestrator.data.corpus import content_of
from orchestrator.errors import UserError
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
        cache_path = _cache_path(stamp) if status.st_size >= MIN_CACHED_BYTES else None
        found = _read_cache(cache_path)
        if found is None:
            found = content_of(path)
            _write_cache(cache_path, found)
        _cache[stamp] = found
    return _cache[stamp]


def _cache_path(stamp: tuple[str, int, int]) -> Path:
    return user_cache() / "hashes" / hashlib.sha256(repr(("text without its byte order mark", *stamp)).encode()).hexdigest()


def _read_cache(path: Path | None) -> tuple[str, int] | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path is not None and re.fullmatch("[0-9a-f]{64} [0-9]{1,18}", text := path.read_text(encoding="ascii")):
            return text[:64], int(text[65:])
    return None


def _write_cache(path: Path | None, content: tuple[str, int]) -> None:
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        tmp = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        tmp.write_text(f"{content[0]} {content[1]}", encoding="ascii")
        tmp.replace(path)
