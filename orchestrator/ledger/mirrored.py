"""What a results folder does more where it is the scratch copy of a bucket (`orchestrator.ledger.bucket`); of any other folder, nothing.

The ledger, the locks and the tensors know these few functions and no network. A process is attached to a bucket by `place`, which reads
`--results`, or by `opened`, with the URL that a task carries to its worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.files.folders import checked

if TYPE_CHECKING:
    from orchestrator.ledger.bucket.lease import Claim
    from orchestrator.ledger.bucket.mirror import Mirror
    from orchestrator.ledger.bucket.orphans import Orphan

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(?:s3|gs|az):")
_mirrors: dict[Path, Mirror] = {}


def place(value: str | Path) -> Path:
    """`--results` as a folder: itself, or the scratch copy of the bucket that it names, brought up to date.

    UserError (one line) for a URL that names none, a server that does not answer, and a scratch copy given by its path.
    """
    text = str(value)
    if _URL.match(text) is None or text.startswith("file://"):
        path = checked(text.removeprefix("file://"), "--results")
        _refuse_scratch(path)
        return path
    root = opened(text)
    _mirrors[root].pull_all()
    return root


def opened(url: str) -> Path:
    """The scratch folder of a bucket's ledger, whose locks and tensors are the bucket's from now on in this process. Fetches nothing."""
    from orchestrator.ledger.bucket.mirror import connect

    known = next((root for root, mirror in _mirrors.items() if mirror.url == url.rstrip("/")), None)
    if known is not None:
        return known
    mirror = connect(url)
    _mirrors[mirror.root] = mirror
    return mirror.root


def forget() -> None:
    """Detaches this process from every bucket."""
    _mirrors.clear()


def url(results: Path) -> str | None:
    """Of the bucket that `results` itself is the copy of; None of any other folder."""
    mirror = _mirrors.get(results.absolute()) if _mirrors else None
    return None if mirror is None else mirror.url


def shown(path: Path) -> str:
    """A path of the ledger as people know it: below the bucket's URL where it is a copy."""
    mirror = _of(path)
    if mirror is None:
        return str(path)
    rest = path.absolute().relative_to(mirror.root).as_posix()
    return mirror.url if rest == "." else f"{mirror.url}/{rest}"


def claim(lock: Path, *, steal: bool = False, timeout: float = 0.0) -> Claim | None:
    """Of the run or sweep that a lock file locks. LockedError names who has it elsewhere; the copy here is then the newest."""
    mirror = _of(lock)
    return None if mirror is None else mirror.claim(lock, steal=steal, timeout=timeout)


def bring(path: Path) -> None:
    """Fetches the tensors at or below `path` that are not here."""
    mirror = _of(path)
    if mirror is not None:
        mirror.bring(path)


def pull(path: Path) -> None:
    """Brings one run's folder, or the whole ledger at its root, up to date; what a process of this machine has stays as it is."""
    mirror = _of(path)
    if mirror is not None:
        mirror.pull_all() if path.absolute() == mirror.root else mirror.pull(path)


def push(results: Path) -> None:
    """Publishes every run and sweep that is here and not yet, or not like this, in the bucket."""
    mirror = _of(results)
    if mirror is not None:
        mirror.push_all()


def absent_bytes(path: Path) -> int:
    """Bytes of the tensors at or below `path` that are in the bucket alone."""
    mirror = _of(path)
    return 0 if mirror is None else mirror.absent_bytes(path)


def follow(path: Path) -> None:
    """Keeps the sweep whose file this is (`.stop`) up to date for as long as this process holds a run."""
    mirror = _of(path)
    if mirror is not None:
        mirror.follow(path)


@contextmanager
def following(results: Path) -> Iterator[None]:
    """Within: what other machines publish arrives here every few seconds."""
    mirror = _of(results)
    if mirror is None:
        yield
    else:
        with mirror.following():
            yield


def orphans(results: Path, *, delete: bool) -> list[Orphan]:
    """Objects in the bucket that nothing refers to: what killed uploads left."""
    mirror = _of(results)
    if mirror is None:
        return []
    from orchestrator.ledger.bucket.orphans import find

    return find(mirror, delete=delete)


def _of(path: Path) -> Mirror | None:
    if not _mirrors:
        return None
    path = path.absolute()
    return next((mirror for root, mirror in _mirrors.items() if path.is_relative_to(root)), None)


def _refuse_scratch(path: Path) -> None:
    marker = path / ".remote" / "url"
    if marker.is_file():
        from orchestrator.errors import UserError

        raise UserError(f"--results {path}: is the scratch copy of {marker.read_text().strip()}; expected that URL")
