"""Archives of a ledger: one uncompressed tar with `manifest.json` (size and sha256 of every other member), then the members, sorted.

Archives are untrusted. Only regular files are accepted; their names must be those of ledger files (`ledger.layout.belongs`), their sizes
and sums must match the manifest, and duplicates and excessive sizes are refused. Owners, modes and times are neither stored nor restored.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import stat
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.files.documents import parse
from orchestrator.ledger.layout import MAX_TEXT, belongs, is_tensor
from orchestrator.specs.positions import display, shown

FORMAT = "nmt-ablate ledger 1"
MANIFEST = "manifest.json"
MAX_MANIFEST = 128 * 2**20
MAX_FILES = 500_000
MAX_BYTES = 200 * 10**9
"""Default limit of the total size of all members; `--max-gb` changes it."""
CHUNK = 1 << 18


@dataclass(frozen=True)
class Manifest:
    """Content of `manifest.json`. files: name -> {"bytes", "sha256"}; metadata: runs, weights, version; sha256: of the file itself."""

    files: dict[str, dict[str, Any]]
    metadata: dict[str, Any]
    sha256: str

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(int(entry["bytes"]) for entry in self.files.values())


def write(path: Path, root: Path, names: Sequence[str], metadata: Mapping[str, Any]) -> Manifest:
    """Writes an archive of the files `names` under `root` atomically. Raises UserError if a file changes meanwhile."""
    files: dict[str, dict[str, Any]] = {}
    for name in sorted(names):
        with (root / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            files[name] = {"bytes": os.fstat(file.fileno()).st_size, "sha256": digest}
    data = json.dumps({"format": FORMAT, **metadata, "files": files}, indent=1, sort_keys=True).encode() + b"\n"
    tmp = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    with interrupt.raising(), atomic.naming(path, sum(entry["bytes"] for entry in files.values())):
        try:
            with tmp.open("xb") as out, tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
                tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
                for name, entry in files.items():
                    with (root / name).open("rb") as file:
                        reader = _HashingReader(file)
                        tar.addfile(_member(name, entry["bytes"]), reader)
                        if reader.digest.hexdigest() != entry["sha256"] or file.read(1):
                            raise UserError(f"{display(root / name)}: changed while it was archived; is something writing there?")
                    fault("archive_member")
                tar.close()
                out.flush()
                os.fsync(out.fileno())
            tmp.replace(path)
            atomic.fsync_dir(path.parent)
        finally:
            tmp.unlink(missing_ok=True)
    return Manifest(files, dict(metadata), hashlib.sha256(data).hexdigest())


def unpack(path: Path, target: Path, *, max_bytes: int = MAX_BYTES, check_space: Callable[[int], None] = lambda size: None) -> Manifest:
    """Unpacks an archive into the empty folder `target` and verifies every file. Raises UserError that names the invalid member.

    check_space: called with the total number of bytes before any is written; may raise.
    """
    where = display(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise UserError(f"{where}: found no regular file; expected an archive that `results export` wrote")
    try:
        with path.open("rb") as file, tarfile.open(fileobj=_BoundedReader(file, where), mode="r:") as tar:  # type: ignore[call-overload]
            manifest = _manifest(tar, where)
            if manifest.size > max_bytes:
                raise UserError(f"{where}: holds {manifest.size} bytes; expected at most {max_bytes} (--max-gb)")
            check_space(manifest.size)
            remaining = dict(manifest.files)
            while (member := tar.next()) is not None:
                _check_member(member, remaining, where)
                entry = remaining.pop(member.name)
                source = tar.extractfile(member)
                assert source is not None
                _write(target / member.name, source, entry, f"{where}: {shown(member.name)}")
                fault("import_member")
    except (tarfile.TarError, RecursionError, ValueError, OverflowError) as error:  # tarfile raises any of these on malicious headers
        raise UserError(f"{where}: is no plain tar file ({error}); expected an archive that `results export` wrote") from None
    if remaining:
        raise UserError(f"{where}: {len(remaining)} members are missing, first {next(iter(remaining))}; is the file whole?")
    return manifest


def _manifest(tar: tarfile.TarFile, where: str) -> Manifest:
    member = tar.next()
    if member is None or member.name != MANIFEST or not _is_regular(member) or member.size > MAX_MANIFEST:
        raise UserError(f"{where}: does not begin with {MANIFEST}; expected an archive that `results export` wrote")
    source = tar.extractfile(member)
    assert source is not None
    data = source.read()
    try:
        metadata = parse(data)
        files, found_format = metadata.pop("files"), metadata.pop("format")
        entries = list(files.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{where}: {MANIFEST} is not readable") from None
    if found_format != FORMAT:
        raise UserError(f"{where}: found format {shown(str(found_format))}; expected {FORMAT}")
    if len(entries) > MAX_FILES:
        raise UserError(f"{where}: {len(entries)} files; expected at most {MAX_FILES}")
    for name, entry in entries:
        _check_entry(name, entry, where)
    return Manifest(files, metadata, hashlib.sha256(data).hexdigest())


def _check_entry(name: str, entry: Any, where: str) -> None:
    if not belongs(name):
        raise UserError(f"{where}: {shown(name)}: is no file of a ledger; nothing was taken from the archive")
    size, sha256 = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0 or not re.fullmatch(r"[0-9a-f]{64}", str(sha256)):
        raise UserError(f"{where}: {shown(name)}: {MANIFEST} has no size and sha256 of it")
    if size > MAX_TEXT and not is_tensor(name):
        raise UserError(f"{where}: {shown(name)}: {size} bytes; expected at most {MAX_TEXT} of a file without tensors")


def _check_member(member: tarfile.TarInfo, remaining: Mapping[str, Any], where: str) -> None:
    if not _is_regular(member):
        raise UserError(f"{where}: {shown(member.name)}: is a link, folder, device or sparse file; expected regular files alone")
    if member.name not in remaining:
        raise UserError(f"{where}: {shown(member.name)}: is not in {MANIFEST}, or there twice")
    if member.size != remaining[member.name]["bytes"]:
        raise UserError(f"{where}: {shown(member.name)}: {member.size} bytes; {MANIFEST} says {remaining[member.name]['bytes']}")


def _is_regular(member: tarfile.TarInfo) -> bool:
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()


def _write(path: Path, source: IO[bytes], entry: Mapping[str, Any], where: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with atomic.naming(path, entry["bytes"]), os.fdopen(descriptor, "wb") as file:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != entry["sha256"]:
        raise UserError(f"{where}: its sha256 is not the one in {MANIFEST}; nothing was taken from the archive")


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


class _HashingReader:
    """A file reader that computes the sha256 of what it reads."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        return data


class _BoundedReader:
    """Limits the size of a single read, so that a header that claims gigabytes is refused before it fills the memory."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self.file, self.where = file, where

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_MANIFEST:
            raise UserError(f"{self.where}: a header claims {size} bytes; expected an archive that `results export` wrote")
        return self.file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()
