"""Append-only JSON-lines files: the journal of executed steps and the history of reports.

Each line is one O_APPEND write, so processes do not mix lines, and a killed writer loses at most its last line, which readers skip.
"""

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.faults import fault
from orchestrator.files.atomic import naming, plain
from orchestrator.safe_text import log_once


class JsonLines:
    """An open JSON-lines file. points: prefix of the fault points POINTS_pre_append and POINTS_post_append (see `faults`)."""

    def __init__(self, path: Path, *, points: str = "") -> None:
        self.path, self.points = path, points
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        size = os.fstat(self._descriptor).st_size
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    def append(self, record: dict[str, Any]) -> None:
        """Appends one line; NaN and infinities become null.

        Raises OSError naming the file, for example if the disk is full. After a partial write the next record starts on a new line.
        """
        fault(f"{self.points}_pre_append", record.get("step"))
        line = json.dumps(plain(record), ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        if self._torn:
            line = b"\n" + line
        with naming(self.path, len(line)):
            written = os.write(self._descriptor, line)
            self._torn = written != len(line)
            if self._torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fault(f"{self.points}_post_append", record.get("step"))

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Journal(JsonLines):
    """One line per executed optimizer update, including repeated ones: {"step", "pid", "t"}. t is in seconds, for information only."""

    def step(self, n: int) -> None:
        """Appends the line of update `n`."""
        fault("step", n)
        self.append({"step": n, "pid": os.getpid(), "t": round(time.time(), 3)})


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the records of the complete lines in order; a line that holds none is passed over. A missing file has no records."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        yield from records_in(path.read_bytes())


def records_in(data: bytes) -> Iterator[dict[str, Any]]:
    """`read_lines` of the content of a file."""
    for line in data.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            if isinstance(record := json.loads(line), dict):
                yield record


def records_or_warning(path: Path, data: bytes) -> list[dict[str, Any]]:
    """The records in the content of a file, with a warning on stderr that counts the lines without a record."""
    records, lines = list(records_in(data)), sum(bool(line.strip()) for line in data.split(b"\n")[:-1])
    if len(records) < lines:
        log_once(f"warning: {path}: found no JSON object in {lines - len(records)} of {lines} lines; passed over")
    return records


def executed_steps(path: Path) -> int:
    """Returns the number of updates executed so far, counting repeated ones."""
    return sum("step" in record for record in read_lines(path))
