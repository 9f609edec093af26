"""The local index of a group, COPY/.remote/index/GROUP.json: the head that this copy last read or wrote, and the files that match it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orchestrator.files.locks import file_lock
from orchestrator.ledger.bucket.head import Entry, Head


@dataclass
class Index:
    """`mine`: epoch of this copy's last lock (0: none); `stats`: size and mtime (ns) of the files whose content is `files[name]`."""

    etag: str = ""
    epoch: int = 0
    mine: int = 0
    held: bool = False
    files: dict[str, Entry] = field(default_factory=dict)
    stats: dict[str, list[int]] = field(default_factory=dict)

    def saw(self, head: Head, etag: str) -> None:
        self.etag, self.epoch, self.held, self.files = etag, head.epoch, head.held, dict(head.files)

    def knows(self, root: Path, name: str) -> bool:
        """Returns whether the file exists and is unchanged since its content was compared with `files[name]`."""
        return name in self.files and self.stats.get(name) == stat_of(root / name)

    @property
    def ahead(self) -> bool:
        """Whether this copy had the group last, so that its state is the newest."""
        return self.mine > 0 and self.mine == self.epoch


def stat_of(path: Path) -> list[int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [found.st_size, found.st_mtime_ns]


class Indexes:
    """The indexes of one scratch copy. Processes that share it exclude each other by `exclusive`."""

    def __init__(self, root: Path) -> None:
        self.folder = root / ".remote"

    def read(self, group: str) -> Index:
        """Reads an index. A missing or damaged one is empty, so that every file is compared again."""
        try:
            body = dict(json.loads((self.folder / "index" / f"{group}.json").read_bytes()))
            files = {name: Entry(**entry) for name, entry in body.pop("files").items()}
            return Index(files=files, **body)
        except (OSError, ValueError, TypeError, KeyError):
            return Index()

    def write(self, group: str, index: Index) -> None:
        path = self.folder / "index" / f"{group}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        tmp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        tmp.write_text(json.dumps(asdict(index), separators=(",", ":")))
        tmp.replace(path)

    @contextmanager
    def exclusive(self, group: str) -> Iterator[None]:
        """Context: no other process of this machine fetches or publishes this group."""
        with file_lock(self.folder / "turns" / group):
            yield
