"""Append-only JSON-lines files: the journal of executed steps and the history of reports.

Each line is a single write to an O_APPEND descriptor, so that lines of several processes do not mix, and a killed writer loses at most
its last line, which readers skip.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from orchestrator.faults import fault
from orchestrator.files.atomic import naming, plain


class JsonLines:
    """An open JSON-lines file. points: prefix of the fault points POINTS_pre_append and POINTS_post_append (see `faults`)."""

    def __init__(self, path: Path, *, points: str = "") -> None:
        self.path, self.points = path, points
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
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

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Journal:
    """One line per executed optimizer update, including repeated ones: {"step", "pid", "t"}. t is in seconds, for information only."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)

    def step(self, n: int) -> None:
        """Appends the line of update `n`."""
        fault("step", n)
        self._lines.append({"step": n, "pid": os.getpid(), "t": round(time.time(), 3)})

    def close(self) -> None:
        self._lines.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the records of a JSON-lines file in order. Torn or damaged lines are skipped; a missing file has no records."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    yield from parse_lines(data)


def parse_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """Yields the records of the content of a JSON-lines file, as `read_lines` does."""
    for line in data.split(b"\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def executed_steps(path: Path) -> int:
    """Returns the number of updates executed so far, counting repeated ones."""
    return sum("step" in record for record in read_lines(path))
