"""Interface between the ledger and results folders that are scratch copies of a bucket.

Locks and tensors call these functions, which do nothing for other folders. `orchestrator.ledger.bucket` registers the scratch copies
of this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol


class Lease(Protocol):
    """The lease of a run or sweep of the bucket, held by this process."""

    lost: str | None

    def check(self) -> None: ...
    def release(self, *, quiet: bool = False) -> None: ...
    def reopen(self) -> None: ...


class Orphan(Protocol):
    """An object of the bucket that no head refers to."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def why(self) -> str: ...


class Mirror(Protocol):
    """A scratch copy of a bucket's ledger."""

    root: Path
    url: str

    def pull_all(self) -> None: ...
    def pull(self, path: Path) -> None: ...
    def push_all(self) -> None: ...
    def fetch_missing(self, path: Path) -> None: ...
    def absent_bytes(self, path: Path) -> int: ...
    def follow(self, path: Path) -> None: ...
    def following(self) -> AbstractContextManager[None]: ...
    def lease(self, lock: Path, *, steal: bool, timeout: float) -> Lease | None: ...
    def orphans(self, *, delete: bool) -> Sequence[Orphan]: ...


_mirrors: dict[Path, Mirror] = {}


def register(mirror: Mirror) -> None:
    """Makes this process use the bucket for locks and tensors below `mirror.root`."""
    _mirrors[mirror.root] = mirror


def registered(url: str) -> Mirror | None:
    """The mirror of a bucket's URL, if this process registered one."""
    return next((mirror for mirror in _mirrors.values() if mirror.url == url.rstrip("/")), None)


def forget() -> None:
    """Detaches this process from every bucket."""
    _mirrors.clear()


def url(results: Path) -> str | None:
    """URL of the bucket whose scratch copy `results` is; None for other folders."""
    mirror = _mirrors.get(results.absolute()) if _mirrors else None
    return None if mirror is None else mirror.url


def display_path(path: Path) -> str:
    """A path of the ledger for messages: in a scratch copy, the URL of the object."""
    mirror = _of(path)
    if mirror is None:
        return str(path)
    rest = path.absolute().relative_to(mirror.root).as_posix()
    return mirror.url if rest == "." else f"{mirror.url}/{rest}"


def lease(lock: Path, *, steal: bool = False, timeout: float = 0.0) -> Lease | None:
    """Leases the run or sweep of a lock file and updates the local copy. LockedError names an owner elsewhere."""
    mirror = _of(lock)
    return None if mirror is None else mirror.lease(lock, steal=steal, timeout=timeout)


def fetch(path: Path) -> None:
    """Fetches the missing tensors at or below `path`."""
    mirror = _of(path)
    if mirror is not None:
        mirror.fetch_missing(path)


def pull(path: Path) -> None:
    """Updates one run's folder, or the whole ledger if `path` is its root. What a process of this machine holds is not changed."""
    mirror = _of(path)
    if mirror is not None:
        mirror.pull_all() if path.absolute() == mirror.root else mirror.pull(path)


def push(results: Path) -> None:
    """Publishes every run and sweep that is newer here than in the bucket."""
    mirror = _of(results)
    if mirror is not None:
        mirror.push_all()


def absent_bytes(path: Path) -> int:
    """Bytes of the tensors at or below `path` that are only in the bucket."""
    mirror = _of(path)
    return 0 if mirror is None else mirror.absent_bytes(path)


def follow(path: Path) -> None:
    """Updates the sweep of this file (`.stop`) regularly for as long as this process holds a run."""
    mirror = _of(path)
    if mirror is not None:
        mirror.follow(path)


@contextmanager
def following(results: Path) -> Iterator[None]:
    """Context: fetches what other machines publish every few seconds."""
    mirror = _of(results)
    if mirror is None:
        yield
    else:
        with mirror.following():
            yield


def orphans(results: Path, *, delete: bool) -> Sequence[Orphan]:
    """Objects in the bucket that no head refers to, left by killed uploads."""
    mirror = _of(results)
    return [] if mirror is None else mirror.orphans(delete=delete)


def _of(path: Path) -> Mirror | None:
    if not _mirrors:
        return None
    path = path.absolute()
    return next((mirror for root, mirror in _mirrors.items() if path.is_relative_to(root)), None)
