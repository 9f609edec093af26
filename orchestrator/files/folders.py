"""Checks folders and files given as options, so that problems are reported in one line before any work starts."""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.safe_text import visible

KINDS = {stat.S_IFREG: "a file", stat.S_IFIFO: "a FIFO", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}


def checked(text: str | Path, option: str) -> Path:
    """Returns the path if it is a folder or may become one. Raises UserError if it, or a path above it, is something else."""
    path = Path(text)
    if not str(text).strip() or "\0" in str(text):
        raise UserError(f"{option} {_shown(text)}: names nothing; expected a folder")
    there = next((place for place in (path, *path.parents) if os.path.lexists(place)), None)
    if there is not None and not _is_folder(there):
        above = "" if there == path else f" at {_shown(there)}"
        raise UserError(f"{option} {_shown(path)}: found {_kind(there)}{above}; expected a folder")
    return path


def need_folder(path: Path | None, option: str) -> None:
    """Raises UserError if an input folder is given but does not exist."""
    if path is not None and not _is_folder(path):
        raise UserError(f"{option} {_shown(path)}: no such folder")


def make(path: Path | None, option: str) -> None:
    """Creates an output folder. Raises UserError if it cannot be created or is not writable."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{option} {_shown(path)}: cannot be made ({error.strerror}); expected a folder that may be written") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"{option} {_shown(path)}: may not be written; expected a folder that may")


def make_parent(path: Path, option: str) -> None:
    """Creates the folder above a new folder `path`. Raises UserError like `make`, and if `path` is a folder that is not empty."""
    if _is_folder(path) and any(os.scandir(path)):
        raise UserError(f"{option} {_shown(path)}: is there already; expected a new or empty folder")
    make(path.parent, option)


def no_file(path: Path) -> str | None:
    """Returns why `path` is not a file, as in `it is a folder; expected a file`. None if it is a file or does not exist."""
    if not os.path.lexists(path) or (kind := _kind(path)) == "a file":
        return None
    return f"it is {kind}; expected a file"


def the_file(paths: Sequence[Path]) -> Path | None:
    """Returns the first path that is a file, or None if none exists. Raises UserError if only something other than a file exists."""
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        for path in paths:
            if (reason := no_file(path)) is not None:
                raise UserError(f"{path}: {reason}")
    return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # name too long, or no permission to search a parent folder
        return False


def _kind(path: Path) -> str:
    try:
        return KINDS.get(stat.S_IFMT(path.stat().st_mode), "a device")
    except FileNotFoundError:
        return f"a link to {path.readlink()}, which is not there"
    except OSError as error:
        return "a link that leads back to itself" if error.errno == errno.ELOOP else f"not readable ({error.strerror})"


def _shown(path: str | Path) -> str:
    text = visible(str(path))
    return f"{text[:300]}..." if len(text) > 300 else text or "''"
