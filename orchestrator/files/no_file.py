"""Describes what exists at a path that should be a file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import UserError

KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def no_file(path: Path) -> str | None:
    """Returns why `path` is not a file, as in `it is a folder; expected a file`. None if it is a file or does not exist."""
    if not os.path.lexists(path):
        return None
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return f"it is a link to {path.readlink()}, which is not there; expected a file"
    except OSError as error:
        looping = error.errno == errno.ELOOP
        return f"it is {'a link that leads back to itself' if looping else f'not readable ({error.strerror})'}; expected a file"
    return None if stat.S_ISREG(mode) else f"it is {KINDS.get(stat.S_IFMT(mode), 'no file')}; expected a file"


def the_file(paths: Sequence[Path]) -> Path | None:
    """Returns the first path that is a file, or None if none exists. Raises UserError if only something other than a file exists."""
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        for path in paths:
            if (reason := no_file(path)) is not None:
                raise UserError(f"{path}: {reason}")
    return found
