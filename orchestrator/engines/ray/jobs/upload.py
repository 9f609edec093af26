"""The upload of a job as one zip: what git tracks in the checkout, without secrets and without what .rayignore names."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from orchestrator.engines.ray.jobs.secret_names import is_secret
from orchestrator.errors import UserError
from orchestrator.ledger.provenance import CODE, COMMIT_FILE, dump_commit, run_git
from orchestrator.specs.positions import display, shown

MIB = 2**20
MAX_BYTES = 100 * MIB
"""Ray's limit for one request; compared with sizes before compression."""

_EPOCH = (1980, 1, 1, 0, 0, 0)  # fixed, so that equal files give an equal zip, which Ray stores once

SOURCES = (".py", ".c", ".h", ".yaml")
"""Suffixes of files that git must track in CODE and PROFILES."""
PROFILES = "search_spaces/profiles"
DOCS = "docs"
"""Folder that the job does not need: documentation and the shipped results."""


@dataclass(frozen=True)
class Upload:
    """files: sorted paths relative to `root`. withheld: paths left out because their names look like a secret's."""

    root: Path
    files: tuple[PurePath, ...]
    sizes: tuple[int, ...]
    withheld: tuple[PurePath, ...]

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    def __contains__(self, path: Path) -> bool:
        resolved = path.resolve()
        return resolved.is_relative_to(self.root) and resolved.relative_to(self.root) in self.files


def collect(root: Path, declared: Iterable[Path] = ()) -> Upload:
    """Collects the files that git tracks under `root`, without DOCS, symbolic links and what .rayignore names, and the `declared` ones.

    UserError outside of a git repository, for code that git does not track, and with the largest folders for too large an upload.
    """
    root = root.resolve()
    tracked, ignored = _names(root, "--", ".", f":!{DOCS}"), _names(root, "--ignored", "--cached", "--exclude-per-directory=.rayignore")
    code = [name for name in _names(root, "--others", "--exclude-standard", "--", *CODE, PROFILES) if name.suffix in SOURCES]
    if code:
        raise UserError(*(f"{shown(str(name), 200)}: git does not track it, and the job would lack it: git add -N {name}" for name in code))
    wanted = {name for name in tracked - ignored if (root / name).resolve() == root / name and (root / name).is_file()}
    wanted |= {path.resolve().relative_to(root) for path in declared if path.resolve().is_relative_to(root)}
    names = sorted(name for name in wanted if not is_secret(name))
    sizes = tuple((root / name).stat().st_size for name in names)
    upload = Upload(root, tuple(names), sizes, tuple(sorted(filter(is_secret, wanted))))
    if upload.bytes >= MAX_BYTES:
        raise UserError(
            f"the upload has {mib(upload.bytes)}; Ray takes less than {mib(MAX_BYTES)}: the largest are {', '.join(_largest(upload))}; "
            f"name in {display(root / '.rayignore')} what the cluster does not need"
        )
    return upload


def _names(root: Path, *options: str) -> set[PurePath]:
    """The files under `root` that `git ls-files` lists, relative to it."""
    listed = run_git("ls-files", "-z", *options, root=root)
    if listed is None:
        raise UserError(f"{display(root)}: git lists no files there; expected a git checkout, since submit uploads what git tracks")
    return {PurePath(os.fsdecode(name)) for name in listed.split(b"\0") if name}


def check_readable(upload: Upload, files: Iterable[Path]) -> None:
    """UserError with a line for each required file that is not uploaded."""
    problems = [
        f"{display(file)}: {_missing_reason(upload, file)}: the job could not read it"
        for file in dict.fromkeys(Path(file).absolute() for file in files)
        if file not in upload
    ]
    if problems:
        raise UserError(*problems)


def write_zip(
    upload: Upload, target: Path, *, commit: str | None, dirty: str | None, token: str, extra: Mapping[str, bytes] | None = None
) -> None:
    """Writes the upload, `extra` files and the commit as one zip. UserError for a file that contains the cluster's token."""
    secret, problems = token.encode(), []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        added = {PurePath(name): data for name, data in (extra or {}).items()}
        for name in (*upload.files, *added):
            data = added[name] if name in added else (upload.root / name).read_bytes()
            if secret and secret in data:
                problems.append(f"{shown(name.as_posix(), 200)}: holds the cluster's token; take it out, or name the file in .rayignore")
            entry = zipfile.ZipInfo(name.as_posix(), _EPOCH)
            entry.external_attr = (0o755 if name not in added and os.access(upload.root / name, os.X_OK) else 0o644) << 16
            package.writestr(entry, data, zipfile.ZIP_DEFLATED)
        entry = zipfile.ZipInfo(COMMIT_FILE, _EPOCH)
        entry.external_attr = 0o644 << 16
        package.writestr(entry, dump_commit(commit, dirty))
    if problems:
        raise UserError(*problems)
    if target.stat().st_size >= MAX_BYTES:
        raise UserError(f"the upload has {mib(target.stat().st_size)} as a zip; Ray takes less than {mib(MAX_BYTES)}")


def mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"


def _largest(upload: Upload, count: int = 5) -> list[str]:
    """The largest folders of the first two levels, and files beside them."""
    sizes: Counter[str] = Counter()
    for name, size in zip(upload.files, upload.sizes, strict=True):
        folder = "/".join(name.parts[:2]) + ("/" if len(name.parts) > 2 else "")
        sizes[folder] += size
    return [f"{shown(name, 120)} ({mib(size)})" for name, size in sizes.most_common(count)]


def _missing_reason(upload: Upload, file: Path) -> str:
    if not file.resolve().is_relative_to(upload.root):
        return f"outside of what is uploaded ({display(upload.root)})"
    if file.resolve().relative_to(upload.root) in upload.withheld:
        return "left out of the upload, for its name looks like a secret's"
    return "left out of the upload: git does not track it, .rayignore names it, or it is a symbolic link"
