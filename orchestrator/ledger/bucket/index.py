"""What a scratch copy knows of a group: COPY/.remote/index/GROUP.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from orchestrator.files import atomic

Stat = tuple[int, int]
"""Size and mtime (ns)."""


class Known(NamedTuple):
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
        known = self.files.get(name)
        return known is not None and known.stat is not None and known.stat == stat_of(root / name)


def stat_of(path: Path) -> Stat | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns


def groups_known(root: Path) -> set[str]:
    """The groups with an index."""
    folder = root / ".remote" / "index"
    return {path.relative_to(folder).as_posix().removesuffix(".json") for path in folder.rglob("[!.]*.json")}


def read(root: Path, group: str) -> Index:
    """Reads an index. A missing or damaged one is empty: every file is then fetched again."""
    try:
        body = dict(json.loads((root / ".remote" / "index" / f"{group}.json").read_bytes()))
        files = {name: Known(etag, size, stat and (stat[0], stat[1])) for name, (etag, size, stat) in body.pop("files").items()}
        return Index(files=files, **body)
    except (OSError, ValueError, TypeError, KeyError):
        return Index()


@contextmanager
def exclusive(root: Path, group: str) -> Iterator[Index]:
    """Context: the group's index, saved at the end; no other process or thread of this machine fetches or uploads the group."""
    turn = root / ".remote" / "turns" / group
    turn.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(turn):
        index = read(root, group)
        try:
            yield index
        finally:
            atomic.write_text(root / ".remote" / "index" / f"{group}.json", json.dumps(vars(index)))
