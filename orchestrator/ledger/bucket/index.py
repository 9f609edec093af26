"""What a scratch copy knows of a group: COPY/.remote/index/GROUP.json."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path

from filelock import FileLock

Stat = tuple[int, int]
"""Size and mtime (ns)."""


@dataclass
class Known:
    """An object: its ETag and size in bytes; `stat`: size and mtime (ns) of the local file with the same content."""

    etag: str
    size: int
    stat: Stat | None = None


@dataclass
class Index:
    """token: of the last claim of this copy. claim: ETag of the claim that was last seen; held: another process had the group then."""

    token: str = ""
    claim: str = ""
    held: bool = False
    files: dict[str, Known] = field(default_factory=dict)

    def is_uploaded(self, root: Path, name: str) -> bool:
        """Returns whether the local file has not changed since it was equal to the object."""
        return name in self.files and self.files[name].stat is not None and self.files[name].stat == stat_of(root / name)


def stat_of(path: Path) -> Stat | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns


class Indexes:
    """The indexes of one scratch copy. Processes that share it exclude each other by `exclusive`."""

    def __init__(self, root: Path) -> None:
        self.folder = root / ".remote"

    def read(self, group: str) -> Index:
        """Reads an index. A missing or damaged one is empty: every file is then fetched again."""
        try:
            body = dict(json.loads((self.folder / "index" / f"{group}.json").read_bytes()))
            files = {name: Known(etag, size, stat and (stat[0], stat[1])) for name, (etag, size, stat) in body.pop("files").items()}
            return Index(files=files, **body)
        except (OSError, ValueError, TypeError, KeyError):
            return Index()

    def groups(self) -> set[str]:
        folder = self.folder / "index"
        return {path.relative_to(folder).as_posix().removesuffix(".json") for path in folder.rglob("[!.]*.json")}

    def write(self, group: str, index: Index) -> None:
        path = self.folder / "index" / f"{group}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        tmp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        tmp.write_text(json.dumps(vars(index) | {"files": {name: astuple(known) for name, known in index.files.items()}}))
        tmp.replace(path)

    @contextmanager
    def exclusive(self, group: str) -> Iterator[None]:
        """Context: no other process or thread of this machine fetches or uploads this group."""
        path = self.folder / "turns" / group
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path):
            yield
