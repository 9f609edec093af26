"""The scratch copy of a bucket's ledger: fetches what is newer in the bucket, tensors on demand, and uploads what is newer here."""

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from orchestrator.errors import LockedError, RemoteError, UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger import run_lock
from orchestrator.ledger.bucket import lease as leases
from orchestrator.ledger.bucket.bucket import Bucket, LostRace, Meta
from orchestrator.ledger.layout import LOOKS, claim_of, files_in, group_of, groups_in, is_needed, is_shared, on_demand, writing_order
from orchestrator.paths import user_cache

TRIES = 4
"""Attempts at uploading a group whose files are being replaced."""
_PROBE = ".probe"

Stat = tuple[int, int]
"""Size and mtime (ns)."""


class Known(NamedTuple):
    """An object: its ETag and size in bytes; `stat`: of the local file with the same content."""

    etag: str
    size: int
    stat: Stat | None = None


@dataclass
class Index:
    """State of a group in a copy. token: token of this copy's last claim. claim: ETag of the claim that was last seen."""

    token: str = ""
    claim: str | None = None
    files: dict[str, Known] = field(default_factory=dict)

    def is_uploaded(self, root: Path, name: str) -> bool:
        """Returns whether the local file has not changed since it was equal to the object."""
        return name in self.files and self.files[name].stat == stat_of(root / name) is not None


def stat_of(path: Path) -> Stat | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns


def scratch_of(url: str) -> Path:
    """Returns the scratch folder of a URL, below NMT_SCRATCH or the user's cache; one folder per URL."""
    base = os.environ.get("NMT_SCRATCH") or str(user_cache() / "remote")
    name = url.partition("://")[2].replace("/", "-")[-60:]
    return Path(base).absolute() / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


class Mirror:
    """`root`: the scratch folder."""

    def __init__(self, root: Path, bucket: Bucket) -> None:
        self.root, self.bucket, self.url = root, bucket, bucket.url
        self._clock: timedelta | None = None  # the server's, relative to ours

    def index(self, group: str) -> Index:
        """Reads COPY/.remote/index/GROUP.json. A missing or damaged index is empty: every file is then fetched again."""
        try:
            body = json.loads((self.root / ".remote" / "index" / f"{group}.json").read_bytes())
            files = {name: Known(etag, size, stat and (stat[0], stat[1])) for name, (etag, size, stat) in body["files"].items()}
            return Index(body["token"], body["claim"], files)
        except (OSError, ValueError, TypeError, KeyError):
            return Index()

    @contextmanager
    def exclusive(self, group: str) -> Iterator[Index]:
        """Context: the group's index, saved at the end; no other process or thread of this machine fetches or uploads the group."""
        turn = self.root / ".remote" / "turns" / group
        turn.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(turn):
            index = self.index(group)
            try:
                yield index
            finally:
                atomic.write_text(self.root / ".remote" / "index" / f"{group}.json", json.dumps(vars(index)))

    def pull_all(self, folder: str | None = None) -> None:
        """Updates every group, or those with objects in a folder. RemoteError if the server does not answer."""
        listed: dict[str, list[Meta]] = {group: [] for group in (groups_in(self.root) if folder is None else ())}
        for meta in self.bucket.list(folder):
            if (group := group_of(meta["path"])) is not None:
                listed.setdefault(group, []).append(meta)
        with ThreadPoolExecutor(8) as pool:  # groups that are fetched concurrently
            list(pool.map(self._pull, listed, listed.values()))

    def pull(self, path: Path) -> None:
        """Updates the group of a file or folder. RemoteError if the server does not answer."""
        if (group := self._group_at(path)) is not None:
            self._pull(group, self._listed(group))

    def _listed(self, group: str) -> list[Meta]:
        if group == group_of(LOOKS):  # in no folder that could be listed
            return [answer[1] for name in (LOOKS, claim_of(group)) if (answer := self.bucket.get(name)) is not None]
        return [meta for meta in self.bucket.list(group.partition("/")[0]) if group_of(meta["path"]) == group]

    def _pull(self, group: str, objects: Sequence[Meta]) -> None:
        """Updates a group from its objects, unless a process of this machine has it, and the record of its lock from its claim."""
        record = self.root / claim_of(group)
        lock, etags, index = record.with_suffix(""), {meta["path"]: meta["e_tag"] for meta in objects}, self.index(group)
        known = {name: file.etag for name, file in index.files.items()} | ({} if index.claim is None else {claim_of(group): index.claim})
        here = all(on_demand(name) or (self.root / name).exists() for name in index.files)
        if here and known == etags and not run_lock.record_of(lock).get("held"):
            return
        with self.exclusive(group) as index:
            if (run_lock.owner(lock) or {}).get("host") == socket.gethostname():
                return
            claim, meta = leases.read(self.bucket, group)
            self.download(group, index, objects, ours=claim.get("token") in (None, index.token))
            if meta is not None:
                index.claim = meta["e_tag"]
                if record.parent.is_dir():  # for `status`, `gc` and `import`; by this machine's clock, as it is for display
                    held = claim.get("held", False) and datetime.now(UTC) - meta["last_modified"] < 3 * leases.LEASE
                    atomic.write_json(record, claim | {"held": held})

    def download(self, group: str, index: Index, objects: Sequence[Meta] | None = None, *, ours: bool) -> None:
        """Fetches the group's small files and updates `index`. The caller has exclusive access to the group.

        ours: this copy had the group last, so that its files are the newest and stay. Otherwise the copy is made equal to the bucket.
        """
        wanted = {meta["path"]: meta for meta in (self._listed(group) if objects is None else objects) if is_shared(meta["path"])}
        for name in sorted(files_in(self.root, group), key=writing_order, reverse=True):
            equal = name in wanted and index.is_uploaded(self.root, name) and index.files[name].etag == wanted[name]["e_tag"]
            if not ours and not equal:
                (self.root / name).unlink()
        for name, meta in sorted(wanted.items(), key=lambda item: writing_order(item[0])):
            if name not in index.files or index.files[name].etag != meta["e_tag"]:
                index.files[name] = Known(meta["e_tag"], meta["size"])
            if not on_demand(name) and not (self.root / name).exists():
                self._fetch(name, index)
        index.files = {name: known for name, known in index.files.items() if name in wanted}

    def _fetch(self, name: str, index: Index) -> None:
        """Downloads one file. Nothing if the object was deleted meanwhile."""
        if (answer := self.bucket.get(name)) is not None:
            atomic.write_bytes(self.root / name, answer[0])
            index.files[name] = Known(answer[1]["e_tag"], len(answer[0]), stat_of(self.root / name))

    def fetch_missing(self, path: Path) -> None:
        """Fetches the missing tensors and journals at or below `path`."""
        for group in self._groups_below(path):
            with self.exclusive(group) as index:
                for name in self._absent(index, path):
                    self._fetch(name, index)

    def absent_bytes(self, path: Path) -> int:
        """Bytes of the tensors and journals at or below `path` that are only in the bucket."""
        found = [self.index(group) for group in self._groups_below(path)]
        return sum(index.files[name].size for index in found for name in self._absent(index, path))

    def _absent(self, index: Index, path: Path) -> list[str]:
        names = [name for name in index.files if on_demand(name) and (self.root / name).is_relative_to(path.absolute())]
        return [name for name in names if not (self.root / name).exists() and is_needed(self.root, name)]

    def _groups_below(self, path: Path) -> set[str]:
        return groups_in(self.root) if path.absolute() == self.root else {self._group_at(path) or ""} - {""}

    def _group_at(self, path: Path) -> str | None:
        return group_of(path.absolute().relative_to(self.root).as_posix())

    def upload(self, group: str, before_each: Callable[[], None]) -> None:
        """Uploads the changed files of a group that this process has, and deletes the objects of files that were removed."""
        with self.exclusive(group) as index:
            for _ in range(TRIES):
                with suppress(FileNotFoundError):  # removed while it was read, for example an older checkpoint
                    return self._upload(group, index, before_each)
        raise RemoteError(f"{self.url}/{group}: its files change faster than they are read")

    def _upload(self, group: str, index: Index, before_each: Callable[[], None]) -> None:
        root = self.root
        changed = [name for name in files_in(root, group) if name.endswith(".json") and not index.is_uploaded(root, name)]
        records = {name: (stat_of(root / name), (root / name).read_bytes()) for name in changed}
        here = files_in(root, group)  # listed after the records were read, so that it includes what they name
        changed += [name for name in here if not name.endswith(".json") and not index.is_uploaded(root, name)]
        for name in sorted(changed, key=writing_order):
            before_each()
            fault("remote_pre_upload")
            stat, content = records[name] if name in records else (stat_of(root / name), (root / name).read_bytes())
            index.files[name] = Known(self.bucket.put(name, content), len(content), stat)
        for name in sorted(set(index.files) - {*here, *records}, key=writing_order, reverse=True):
            if not (on_demand(name) and is_needed(root, name)):
                self.bucket.delete(name)
                del index.files[name]

    def push_all(self) -> None:
        """Uploads what a killed process left here and what was not written under a lock. Groups of a live process are skipped."""
        for group in sorted(groups_in(self.root)):
            index, lock = self.index(group), (self.root / claim_of(group)).with_suffix("")
            record = run_lock.record_of(lock)
            killed = record.get("held") and run_lock.is_over(record)
            if killed or not all(index.is_uploaded(self.root, name) for name in files_in(self.root, group)):
                with suppress(LockedError), run_lock.RunLock(lock):
                    pass

    def lease(self, lock: Path, *, timeout: float) -> leases.Lease | None:
        """Claims the group of a lock file; None for a lock that only this machine uses."""
        group = self._group_at(lock)
        return None if group is None else leases.take(self, group, timeout)

    def check_server(self) -> None:
        """UserError if the server ignores the conditions of a PUT, on which claims depend. Compares the clocks. Once per process."""
        if self._clock is not None:
            return
        self.bucket.put(_PROBE, b"")
        for etag in (None, f'"{32 * "f"}"'):
            with suppress(LostRace):
                self.bucket.put_if(_PROBE, b"", etag)
                raise UserError(f"{self.url}: the server ignores If-None-Match or If-Match; expected one with conditional writes")
        answer = self.bucket.get(_PROBE, small=True)
        self._clock = timedelta() if answer is None else answer[1]["last_modified"] - datetime.now(UTC)

    def age(self, meta: Meta) -> timedelta:
        """Time since an object was written, by the server's clock."""
        return datetime.now(UTC) + (self._clock or timedelta()) - meta["last_modified"]
