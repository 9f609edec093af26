"""What commands derive from the specs and sweep files of a ledger, kept in the user's cache, so that each file is read once.

The index is never a source of results. A value counts only while its file has the size, times and inode that it had, and while the code
is the same; every record that a command uses is read and verified as ever. A missing or damaged index is made again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.files.documents import read_object
from orchestrator.ledger.packed import table_of
from orchestrator.paths import ROOT, user_cache

MIN_BYTES = 1 << 20
"""Of the files that a command read anew before it writes the index: small ledgers need none."""
SETTLED = 2.0
"""Seconds after which a file counts as written: a second write in one tick of the clock would leave the same times."""


class Index:
    """The index of one ledger, for values of one kind."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self._prefix = root, len(str(root)) + 1
        name = hashlib.sha256(f"{root.absolute()}\0{kind}".encode()).hexdigest()[:32]
        self.path = user_cache() / "index" / f"{name}.json"
        known = read_object(self.path) or {}
        good = known.get("root") == str(root.absolute()) and known.get("code") == _code()
        self._known: dict[str, Any] = known["values"] if good else {}
        self._values: dict[str, Any] = {}
        self._read = 0

    def of(self, path: Path, make: Callable[[], Any], good: Callable[[Any], bool] = lambda value: True) -> Any:
        """The value of a file: the known one if it is `good`, else `make()`, JSON data. None, for damaged files, is not kept."""
        name, stamp = str(path)[self._prefix :], _stamp(path)
        entry = self._known.get(name)
        if entry is None or stamp is None or entry[0] != stamp or not good(entry[1]):
            entry = [stamp, make()]
            self._read += stamp[0] if stamp is not None else 0
        if stamp is not None and entry[1] is not None and stamp[1] < time.time_ns() - SETTLED * 1e9:
            self._values[name] = entry
        return entry[1]

    def save(self) -> None:
        """Writes the values of all files asked for, if enough are new. A cache that cannot be written is no error."""
        if self._read < MIN_BYTES:
            return
        tmp = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            body = {"root": str(self.root.absolute()), "code": _code(), "values": self._values}
            tmp.write_text(json.dumps(body, separators=(",", ":")), encoding="utf-8")
            tmp.replace(self.path)


def _stamp(path: Path) -> list[int] | None:
    """Size, times and inode of a file, for a file of a packed run those of its table; None for a missing file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of thousands of files
    except OSError:
        if path.name != "spec.yaml" or (table := table_of(path)) is None:
            return None
        status = table.path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


@functools.cache
def _code() -> str:
    """Changes with every edit of the product, because specs may then mean something else."""
    files = sorted(path for top in ("models", "orchestrator") for path in (ROOT / top).rglob("*.py"))
    return hashlib.sha256(repr([(str(path), _stamp(path)) for path in files]).encode()).hexdigest()
