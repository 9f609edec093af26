"""Archives of a ledger: one uncompressed tar with `manifest.json` (size and sha256 of every other member), then the members, sorted.

An archive is not trusted. It may hold regular files alone, once each, with the names of ledger files (`ledger.layout.belongs`) and with the
sizes and sums of the manifest. Owners, modes and times are neither stored nor restored.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

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
EXPECTED = "expected an archive that `results export` wrote"


class Entry(BaseModel):
    """Size and sha256 of one member."""

    model_config = ConfigDict(strict=True)
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """Content of `manifest.json`. sha256: of the file itself, which the file does not hold."""

    model_config = ConfigDict(strict=True)
    created_by: str = ""
    files: dict[str, Entry] = Field(max_length=MAX_FILES)
    format: Literal["nmt-ablate ledger 1"] = FORMAT
    runs: int = 0
    weights: bool = False
    sha256: str = Field("", exclude=True)

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(entry.bytes for entry in self.files.values())


def entry_of(path: Path) -> Entry:
    """Size and sha256 of a file, which is durable afterwards."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return Entry(bytes=os.fstat(file.fileno()).st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def write(path: Path, root: Path, names: Sequence[str], *, created_by: str = "", runs: int = 0, weights: bool = False) -> Manifest:
    """Writes an archive of the files `names` under `root` atomically. Raises UserError if a file changes meanwhile."""
    files = {name: entry_of(root / name) for name in sorted(names)}
    manifest = Manifest(created_by=created_by, files=files, runs=runs, weights=weights)
    data = manifest.model_dump_json(indent=1).encode() + b"\n"
    with interrupt.raising(), atomic.naming(path, manifest.size), atomic.replacing(path) as tmp:
        with tarfile.open(tmp, "x", format=tarfile.GNU_FORMAT) as tar:
            tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
            for name, entry in files.items():
                with (root / name).open("rb") as file:
                    tar.addfile(_member(name, entry.bytes), file)
                if entry_of(root / name) != entry:
                    raise UserError(f"{display(root / name)}: changed while it was archived; is something writing there?")
                fault("archive_member")
        entry_of(tmp)
    return manifest.model_copy(update={"sha256": hashlib.sha256(data).hexdigest()})


def unpack(path: Path, target: Path, *, max_bytes: int = MAX_BYTES, check_space: Callable[[int], None] = lambda size: None) -> Manifest:
    """Unpacks an archive into the empty folder `target` and verifies every file. Raises UserError that names the invalid member.

    check_space: called with the total number of bytes before any is written; may raise.
    """
    where = display(path)
    try:
        with _BoundedReader(io.FileIO(str(path))) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            manifest = _manifest(tar, where)
            if manifest.size > max_bytes:
                raise UserError(f"{where}: holds {manifest.size} bytes; expected at most {max_bytes} (--max-gb)")
            check_space(manifest.size)
            remaining = dict(manifest.files)
            while (member := tar.next()) is not None:
                entry = remaining.pop(member.name, None)
                if entry is None or not member.isreg() or member.issparse() or member.size != entry.bytes:
                    raise UserError(
                        f"{where}: {shown(member.name)}: is not in {MANIFEST}, not of its size, there twice, or no regular file"
                    )
                with atomic.naming(target / member.name, entry.bytes):
                    tar.extract(member.replace(mtime=None, deep=False), target, filter="data")  # type: ignore[arg-type]
                if entry_of(target / member.name) != entry:
                    raise UserError(f"{where}: {shown(member.name)}: its sha256 is not the one in {MANIFEST}")
                fault("import_member")
    except (tarfile.TarError, RecursionError, ValueError, OverflowError) as error:  # tarfile raises any of these on malicious headers
        raise UserError(f"{where}: is no plain tar file ({error}); {EXPECTED}") from None
    if remaining:
        raise UserError(f"{where}: {len(remaining)} members are missing, first {next(iter(remaining))}; is the file whole?")
    return manifest


def _manifest(tar: tarfile.TarFile, where: str) -> Manifest:
    member = tar.next()
    source = None if member is None or member.name != MANIFEST or member.size > MAX_MANIFEST else tar.extractfile(member)
    if source is None:
        raise UserError(f"{where}: does not begin with {MANIFEST}; {EXPECTED}")
    data = source.read()
    try:
        manifest = Manifest.model_validate(parse(data)).model_copy(update={"sha256": hashlib.sha256(data).hexdigest()})
    except ValidationError as error:
        first = error.errors()[0]
        named = ".".join(map(str, first["loc"]))
        raise UserError(f"{where}: {MANIFEST}: {shown(named)}: {first['msg']}; found {shown(str(first['input']))}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{where}: {MANIFEST} is not readable") from None
    for name, entry in manifest.files.items():
        if not belongs(name):
            raise UserError(f"{where}: {shown(name)}: is no file of a ledger; nothing was taken from the archive")
        if entry.bytes > MAX_TEXT and not is_tensor(name):
            raise UserError(f"{where}: {shown(name)}: {entry.bytes} bytes; expected at most {MAX_TEXT} of a file without tensors")
    return manifest


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
