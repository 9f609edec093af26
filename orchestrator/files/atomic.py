"""Atomic, durable file writes: a reader sees the old content or the new one, never a part.

A write creates a temporary file (`.tmp`) in the same directory, syncs it, renames it and syncs the directory. If the call returns, the
content survives a power failure. If it raises before the rename, the old content is unchanged.
"""

import contextlib
import itertools
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.faults import fault


def write_bytes(
    path: Path, data: bytes, *, points: str | None = None, step: int | None = None, check: Callable[[], None] | None = None
) -> None:
    """Replaces `path` atomically and durably. Fault points: `<points>_pre_write`, `_pre_fsync`, `_pre_rename`, `_post_rename`.

    `check` is called just before the rename and may raise to prevent it (fencing). An OSError names the path and the size.
    """

    def at(name: str) -> None:
        if points is not None:
            fault(f"{points}_{name}", step)

    with naming(path, len(data)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, lambda: at("post_rename")) as tmp:
            at("pre_write")
            write_new(tmp, data, lambda: at("pre_fsync"))
            at("pre_rename")
            if check is not None:
                check()


@contextlib.contextmanager
def replacing(path: Path, renamed: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Context: a temporary path beside `path`, for a file or a folder, that is renamed to `path` at the end or removed after an error.

    The block makes the content durable. renamed: called between the rename and the sync of the directory.
    """
    tmp = temporary(path)
    try:
        yield tmp
        tmp.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(tmp)
        raise
    renamed()
    fsync_dir(path.parent)


def temporary(path: Path) -> Path:
    """A new name beside `path`, which `gc` and `remove_temporary` know as a leftover."""
    return path.with_name(f".{path.name[-100:]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def write_new(path: Path, data: bytes, written: Callable[[], None] = lambda: None, *, mode: int = 0o666) -> None:
    """Writes a file that does not exist, and syncs it. written: called before the sync."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        written()
        os.fsync(file.fileno())


def write_text(path: Path, text: str, **options: Any) -> None:
    """Writes UTF-8 text with `write_bytes`."""
    write_bytes(path, text.encode("utf-8"), **options)


def write_json(path: Path, value: Any, **options: Any) -> None:
    """Writes `json_bytes` with `write_bytes`."""
    write_bytes(path, json_bytes(value), **options)


def json_bytes(value: Any) -> bytes:
    """Indented JSON with sorted keys. Raises ValueError for NaN and infinities."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def fsync_dir(path: Path) -> None:
    """Syncs a directory, so that renames and new files in it are durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def naming(path: Path, size: int | None = None) -> Iterator[None]:
    """Re-raises an OSError of the block (disk full, read-only, ...) with `path` and the number of bytes in its message."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        wrote = "" if size is None else f" (writing {size} bytes)"
        raise OSError(error.errno, f"{error.strerror}{wrote}", str(path)) from error


def set_aside(path: Path) -> None:
    """Renames what is at `path`, if anything, to the next free name with `.corrupt` after it."""
    if os.path.lexists(path):
        names = (path.with_name(f"{path.name}.corrupt{number or ''}") for number in itertools.count())
        path.rename(next(name for name in names if not os.path.lexists(name)))


def plain(value: Any) -> Any:
    """Converts a value to plain JSON data: NaN and infinities to None, tuples to lists, numpy and torch scalars to Python numbers.

    Raises TypeError for any other type.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return plain(value.item())
    raise TypeError(f"{type(value).__name__} is not JSON data")


def remove_temporary(directory: Path) -> None:
    """Removes what killed writers left directly in `directory`. The caller must hold the run's lock."""
    for path in directory.glob(".*.tmp"):
        remove(path)


def remove(path: Path) -> None:
    """Removes a file or a folder; a missing one is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
