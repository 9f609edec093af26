"""Append-only JSON-lines files: the journal of executed steps and the history of reports.

Each line is a single write to an O_APPEND descriptor, so that lines of several processes do not mix, and a killed writer loses at most
its last line, which readers skip.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orchestrator.faults import fault
from orchestrator.files.atomic import naming, plain
from orchestrator.safe_text import log_once


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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Journal(JsonLines):
    """One line per executed optimizer update, including repeated ones: {"step", "pid", "t"}. t is in seconds, for information only."""

    def step(self, n: int) -> None:
        """Appends the line of update `n`."""
        fault("step", n)
        self.append({"step": n, "pid": os.getpid(), "t": round(time.time(), 3)})


def read_lines(path: Path, on_bad: Callable[[int], None] | None = None) -> Iterator[dict[str, Any]]:
    """Yields the records of the complete lines in order. A missing file has no records.

    on_bad: called with the number of each line that holds no record; the line is skipped.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from records_in(data, on_bad)


def records_in(data: bytes, on_bad: Callable[[int], None] | None = None) -> Iterator[dict[str, Any]]:
    """`read_lines` of the content of a file."""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            record = json.loads(line) if line.strip() else None
        except ValueError:
            record = ...
        if isinstance(record, dict):
            yield record
        elif record is not None and on_bad is not None:
            on_bad(number)


def records_or_warning(path: Path, data: bytes) -> list[dict[str, Any]]:
    """The records in the content of a file, with a warning on stderr that names the lines without a record."""
    bad: list[int] = []
    records = list(records_in(data, bad.append))
    if bad:
        lines = ", ".join(map(str, bad[:5])) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        log_once(f"warning: {path}: found no JSON object in line {lines}; passed over")
    return records


def executed_steps(path: Path) -> int:
    """Returns the number of updates executed so far, counting repeated ones."""
    return sum("step" in record for record in read_lines(path))
