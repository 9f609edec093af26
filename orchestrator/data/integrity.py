"""Hashes of files: of a corpus's text, and of prepared files, whose size is checked at each access and whose sha256 once per process.

Text is hashed once per (path, size, modification time). The hashes of large texts are also kept on disk, in
`$XDG_CACHE_HOME/nmt-ablate/hashes`; an unusable cache is no error.
"""

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestrator.data.corpus import content_of
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.paths import user_cache

MIN_CACHED_BYTES = 16 << 20
_cache: dict[tuple[str, int, int], tuple[str, int]] = {}
_verified: dict[str, tuple[int, int, str]] = {}
"""Absolute path -> size, modification time and sha256 when this process hashed the file."""


class DamagedError(UserError):
    """A prepared file that is not as recorded. about: path and fault, without the remedy."""

    def __init__(self, path: Path, found: str) -> None:
        self.about = f"{path}: is not as it was prepared ({found})"
        super().__init__(f"{self.about}; remove the folder {path.parent} and the next run prepares it again")


class VerifiedFiles:
    """The files of one prepared folder. sizes, sums: name -> recorded bytes and sha256."""

    def __init__(self, folder: Path, sizes: Mapping[str, int], sums: Mapping[str, str]) -> None:
        self.folder, self.sizes, self.sums = folder, sizes, sums

    def check(self, *, contents: bool) -> None:
        """Raises DamagedError for the first file whose size differs, or with `contents` its sha256."""
        for name in self.sizes:
            self.verified(name) if contents else self._status(name)

    def verified(self, name: str) -> Path:
        """The path of a file. Raises DamagedError, with what was found and how to repair it, if the file is not as recorded."""
        status, path = self._status(name), self.folder / name
        stamp = (status.st_size, status.st_mtime_ns, self.sums[name])
        if _verified.get(str(path.absolute())) != stamp:
            found = sha256_of(path)
            if found != self.sums[name]:
                raise DamagedError(path, f"found sha256 {found[:16]}.., expected {self.sums[name][:16]}..")
            _verified[str(path.absolute())] = stamp
        return path

    def _status(self, name: str) -> os.stat_result:
        path = self.folder / name
        if name not in self.sizes:
            raise DamagedError(path, "it was not written when this corpus was prepared")
        try:
            status = path.stat()
        except OSError as error:
            raise DamagedError(path, f"it cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError(path, "found something else than a file")
        if status.st_size != self.sizes[name]:
            raise DamagedError(path, f"found {status.st_size:,} bytes, expected {self.sizes[name]:,}")
        return status


def sha256_of(path: Path) -> str:
    """sha256 of a file's bytes. Raises UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


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
    if stamp in _cache:
        return _cache[stamp]
    kept = user_cache() / "hashes" / hashlib.sha256(repr(("text without its byte order mark", *stamp)).encode()).hexdigest()
    large, known = status.st_size >= MIN_CACHED_BYTES, None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        known = re.fullmatch("([0-9a-f]{64}) ([0-9]{1,18})", kept.read_text(encoding="ascii")) if large else None
    _cache[stamp] = content_of(path) if known is None else (known[1], int(known[2]))
    if large and known is None:
        with contextlib.suppress(OSError):
            atomic.write_text(kept, "{} {}".format(*_cache[stamp]))
    return _cache[stamp]
