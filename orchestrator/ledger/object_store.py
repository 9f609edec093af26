"""Interface between the ledger and results folders that are scratch copies of a bucket (`orchestrator.ledger.bucket`).

Locks and tensors call these functions, which do nothing for other folders.
"""

from pathlib import Path
from typing import Any

_mirrors: dict[Path, Any] = {}
"""Root of a scratch copy -> its `orchestrator.ledger.bucket.mirror.Mirror`, which this module must not import."""


def register(mirror: Any) -> None:
    """Makes this process use the bucket for locks and tensors below `mirror.root`."""
    _mirrors[mirror.root] = mirror


def mirror_of(path: Path) -> Any:
    """The mirror that holds `path`; None for other folders."""
    if not _mirrors:
        return None
    path = path.absolute()
    return next((mirror for root, mirror in _mirrors.items() if path.is_relative_to(root)), None)


def url(results: Path) -> str | None:
    """URL of the bucket whose scratch copy `results` is; None for other folders."""
    return getattr(mirror_of(results), "url", None)


def display_path(path: Path) -> str:
    """A path of the ledger for messages: in a scratch copy, the URL of the object."""
    mirror = mirror_of(path)
    if mirror is None:
        return str(path)
    rest = path.absolute().relative_to(mirror.root).as_posix()
    return mirror.url if rest == "." else f"{mirror.url}/{rest}"


def fetch(path: Path) -> None:
    """Fetches the missing tensors at or below `path`."""
    if (mirror := mirror_of(path)) is not None:
        mirror.fetch_missing(path)


def pull(path: Path) -> None:
    """Updates one run's folder, or the whole ledger if `path` is its root. Groups that a process of this machine holds do not change."""
    if (mirror := mirror_of(path)) is not None:
        mirror.pull_all() if path.absolute() == mirror.root else mirror.pull(path)


def push(results: Path) -> None:
    """Uploads every run and sweep that is newer here than in the bucket."""
    if (mirror := mirror_of(results)) is not None:
        mirror.push_all()
