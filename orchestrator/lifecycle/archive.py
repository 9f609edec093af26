"""Archives of a ledger: one uncompressed tar with `manifest.json` (size and sha256 of every other member), then the members, sorted.

An archive is not trusted. It may hold regular files alone, once each, with the names of ledger files (`ledger.layout.belongs`) and with the
sizes and sums of the manifest. Owners, modes and times are neither stored nor restored.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.files.documents import parse
from orchestrator.ledger.layout import MAX_TEXT, belongs, is_tensor
from orchestrator.specs.positions import display, shown

FORMAT: Literal["nmt-ablate ledger 1"] = "nmt-ablate ledger 1"
MANIFEST = "manifest.json"


class Entry(BaseModel, strict=True):
    """Size and sha256 of one member."""

    bytes: int
    sha256: str


class Manifest(BaseModel, strict=True):
    """Content of `manifest.json`."""

    created_by: str = ""
    files: dict[str, Entry]
    format: Literal["nmt-ablate ledger 1"] = FORMAT
    runs: int = 0
    weights: bool = False


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
    path.parent.mkdir(parents=True, exist_ok=True)
    with interrupt.raising(), atomic.naming(path), atomic.replacing(path) as tmp:
        with tarfile.open(tmp, "x", format=tarfile.GNU_FORMAT) as tar:
            tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
            for name, entry in files.items():
                with (root / name).open("rb") as file:
                    tar.addfile(_member(name, entry.bytes), file)
                if entry_of(root / name) != entry:
                    raise UserError(f"{display(root / name)}: changed while it was archived; is something writing there?")
                fault("archive_member")
        entry_of(tmp)
    return manifest


def unpack(path: Path, target: Path) -> list[str]:
    """Unpacks an archive into the empty folder `target`, verifies every file and returns their names. UserError names an invalid member."""
    where = display(path)
    try:
        with tarfile.open(path, mode="r:") as tar:
            remaining = _manifest(tar, where).files
            names = list(remaining)
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
    except (tarfile.TarError, RecursionError, ValueError, OverflowError, MemoryError) as error:  # any of these on malicious headers
        raise UserError(f"{where}: is no plain tar file ({error}); expected an archive that `results export` wrote") from None
    if remaining:
        raise UserError(f"{where}: {len(remaining)} members are missing, first {next(iter(remaining))}; is the file whole?")
    return names


def _manifest(tar: tarfile.TarFile, where: str) -> Manifest:
    member = tar.next()
    source = None if member is None or member.name != MANIFEST or member.size > MAX_TEXT else tar.extractfile(member)
    try:
        manifest = Manifest.model_validate(parse(b"" if source is None else source.read()))
    except (ValueError, RecursionError):  # a ValidationError is a ValueError
        raise UserError(f"{where}: does not begin with a {MANIFEST} of {FORMAT!r}; expected what `results export` wrote") from None
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
