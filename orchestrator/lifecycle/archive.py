"""Archives of a ledger: one uncompressed tar with `manifest.json` (size and sha256 of every other member), then the members, sorted.

An archive is not trusted. It may hold regular files alone, once each, with the names of ledger files (`ledger.layout.belongs`) and with the
sizes and sums of the manifest. Owners, modes and times are neither stored nor restored.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.files.documents import parse
from orchestrator.ledger.layout import MAX_TEXT, belongs, is_tensor
from orchestrator.specs.positions import display, shown

FORMAT: Literal["nmt-ablate ledger 1"] = "nmt-ablate ledger 1"
MANIFEST = "manifest.json"
MAX_MANIFEST = 128 * 2**20
MAX_FILES = 500_000
MAX_BYTES = 200 * 10**9
"""Default limit of the total size of all members; `--max-gb` changes it."""


class Entry(BaseModel):
    """Size and sha256 of one member."""

    model_config = ConfigDict(strict=True)
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """Content of `manifest.json`. sha256: of the file itself, which the file does not hold."""

    model_config = ConfigDict(strict=True)
    created_by: str = ""
    files: dict[str, Entry]
    format: Literal["nmt-ablate ledger 1"] = FORMAT
    runs: int = 0
    weights: bool = False
    sha256: str = Field("", exclude=True)

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(entry.bytes for entry in self.files.values())


def write(path: Path, root: Path, names: Sequence[str], *, created_by: str = "", runs: int = 0, weights: bool = False) -> Manifest:
    """Writes an archive of the files `names` under `root` atomically. Raises UserError if a file changes meanwhile."""
    files = {name: entry_of(root / name) for name in sorted(names)}
    manifest = Manifest(created_by=created_by, files=files, runs=runs, weights=weights)
    data = manifest.model_dump_json(indent=1).encode() + b"\n"
    tmp = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    with interrupt.raising(), atomic.naming(path, manifest.size):
        try:
            with tmp.open("xb") as out, tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
                tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
                for name, entry in files.items():
                    with (root / name).open("rb") as file:
                        tar.addfile(_member(name, entry.bytes), file)
                    if entry_of(root / name) != entry:
                        raise UserError(f"{display(root / name)}: changed while it was archived; is something writing there?")
                    fault("archive_member")
                tar.close()
                out.flush()
                os.fsync(out.fileno())
            tmp.replace(path)
            atomic.fsync_dir(path.parent)
        finally:
            tmp.unlink(missing_ok=True)
    return manifest.model_copy(update={"sha256": hashlib.sha256(data).hexdigest()})


def unpack(path: Path, target: Path, *, max_bytes: int = MAX_BYTES, check_space: Callable[[int], None] = lambda size: None) -> Manifest:
    """Unpacks an archive into the empty folder `target` and verifies every file. Raises UserError that names the invalid member.

    check_space: called with the total number of bytes before any is written; may raise.
    """
    where = display(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise UserError(f"{where}: found no regular file; expected an archive that `results export` wrote")
    try:
        with _BoundedReader(io.FileIO(str(path))) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            manifest = _manifest(tar, where)
            if manifest.size > max_bytes:
                raise UserError(f"{where}: holds {manifest.size} bytes; expected at most {max_bytes} (--max-gb)")
            check_space(manifest.size)
            remaining = dict(manifest.files)
            while (member := tar.next()) is not None:
                _check_member(member, remaining, where)
                _extract(tar, member, target, remaining.pop(member.name), where)
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
    data = _content(tar, member).read()
    try:
        manifest = Manifest.model_validate(parse(data)).model_copy(update={"sha256": hashlib.sha256(data).hexdigest()})
    except ValidationError as error:
        first = error.errors()[0]
        named = ".".join(map(str, first["loc"]))
        raise UserError(f"{where}: {MANIFEST}: {shown(named)}: {first['msg']}; found {shown(str(first['input']))}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{where}: {MANIFEST} is not readable") from None
    if len(manifest.files) > MAX_FILES:
        raise UserError(f"{where}: {len(manifest.files)} files; expected at most {MAX_FILES}")
    for name, entry in manifest.files.items():
        if not belongs(name):
            raise UserError(f"{where}: {shown(name)}: is no file of a ledger; nothing was taken from the archive")
        if entry.bytes > MAX_TEXT and not is_tensor(name):
            raise UserError(f"{where}: {shown(name)}: {entry.bytes} bytes; expected at most {MAX_TEXT} of a file without tensors")
    return manifest


def _check_member(member: tarfile.TarInfo, remaining: dict[str, Entry], where: str) -> None:
    if not _is_regular(member):
        raise UserError(f"{where}: {shown(member.name)}: is a link, folder, device or sparse file; expected regular files alone")
    if member.name not in remaining:
        raise UserError(f"{where}: {shown(member.name)}: is not in {MANIFEST}, or there twice")
    if member.size != remaining[member.name].bytes:
        raise UserError(f"{where}: {shown(member.name)}: {member.size} bytes; {MANIFEST} says {remaining[member.name].bytes}")


def _is_regular(member: tarfile.TarInfo) -> bool:
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    source = tar.extractfile(member)
    assert source is not None
    return source


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, entry: Entry, where: str) -> None:
    """Writes one member. `TarFile.extract` would restore its time, by which the index of a ledger knows a file."""
    path = target / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.naming(path, entry.bytes), path.open("xb") as file:
        shutil.copyfileobj(_content(tar, member), file)
        file.flush()
        os.fsync(file.fileno())
    if entry_of(path) != entry:
        raise UserError(f"{where}: {shown(member.name)}: its sha256 is not the one in {MANIFEST}; nothing was taken from the archive")


def entry_of(path: Path) -> Entry:
    with path.open("rb") as file:
        return Entry(bytes=os.fstat(file.fileno()).st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


class _BoundedReader(io.BufferedReader):
    """Limits the size of a single read: a header that claims gigabytes is refused before it fills the memory."""

    def read(self, size: Any = -1) -> bytes:
        if size is None or not 0 <= size <= MAX_MANIFEST:
            raise ValueError(f"a header claims {size} bytes")
        return super().read(size)
