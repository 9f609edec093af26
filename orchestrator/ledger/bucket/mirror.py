"""The scratch copy of a bucket's ledger: fetches what is newer in the bucket, tensors on demand, and uploads what is newer here."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.errors import LockedError, RemoteError, UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger import run_lock
from orchestrator.ledger.bucket import group as groups
from orchestrator.ledger.bucket import index as indexes
from orchestrator.ledger.bucket import lease as claims
from orchestrator.ledger.bucket.bucket import Bucket, Found, LostRace
from orchestrator.ledger.bucket.index import Index, Known, stat_of
from orchestrator.ledger.layout import writing_order
from orchestrator.paths import user_cache

AT_ONCE = 8
"""Groups fetched concurrently."""
TRIES = 4
"""Attempts at uploading a group whose files are being replaced."""
_PROBE = ".probe"


def scratch_of(url: str) -> Path:
    """Returns the scratch folder of a URL, below NMT_SCRATCH or the user's cache; one folder per URL."""
    base = os.environ.get("NMT_SCRATCH") or str(user_cache() / "remote")
    name = url.partition("://")[2].replace("/", "-")[-60:]
    return Path(base).absolute() / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


class Mirror:
    """`root`: the scratch folder."""

    def __init__(self, root: Path, bucket: Bucket) -> None:
        self.root, self.bucket, self.url = root, bucket, bucket.url
        self._followed: set[Path] = set()
        self._clock: timedelta | None = None  # the server's, relative to ours

    # ------------------------------------------------------------ fetching

    def pull_all(self) -> None:
        """Updates every group. UserError if the server does not answer."""
        listed: dict[str, list[Found]] = defaultdict(list)
        try:
            for found in self.bucket.list():
                if found.name.startswith("heads/"):
                    raise UserError(f"--results {self.url}: was written by an older version; expected an empty prefix")
                if (group := groups.group_of(found.name)) is not None:
                    listed[group].append(found)
            for group in indexes.groups_known(self.root) - {"lifecycle"}:
                listed.setdefault(group, [])
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda group: self._pull(group, listed[group]), listed))
        except RemoteError as error:
            raise UserError(f"--results {error}") from None

    def pull(self, path: Path) -> None:
        """Updates the group of a file or folder. RemoteError if the server does not answer."""
        group = groups.group_of(self._name(path))
        if group is not None:
            self._pull(group, self._listed(group))

    def _listed(self, group: str) -> list[Found]:
        return [found for found in self.bucket.list(group.partition("/")[0]) if groups.group_of(found.name) == group]

    def _pull(self, group: str, found: list[Found]) -> None:
        """Updates a group from its objects, unless a process of this machine has it."""
        lock, objects = self.root / groups.lock_of(group), {one.name: one for one in found}
        claim_etag = objects[groups.claim_of(group)].etag if groups.claim_of(group) in objects else ""
        index = indexes.read(self.root, group)
        if index.claim == claim_etag and not index.held and self._is_equal(group, index, objects):
            return
        with indexes.exclusive(self.root, group) as index:
            owner = run_lock.owner(lock)
            if owner is not None and owner.get("host") == socket.gethostname():
                return
            answer = claims.read(self.bucket, group)
            self.download(group, index, objects, ours=answer is None or answer[0].token == index.token)
            if answer is not None:
                age = datetime.now(UTC) - answer[1].modified  # only for display; `lease` uses the server's clock
                index.claim, index.held = answer[1].etag, answer[0].held and age.total_seconds() < 3 * claims.LEASE
                if lock.parent.is_dir() and (index.held or run_lock.record_of(lock).get("remote")):  # for `status`, `gc` and `import`
                    record = answer[0].owner | {"epoch": answer[0].epoch, "held": index.held, "remote": True}
                    atomic.write_json(self.root / groups.claim_of(group), record)

    def _is_equal(self, group: str, index: Index, objects: Mapping[str, Found]) -> bool:
        """Returns whether the copy has every object of the group in its present state."""
        here = set(groups.files_in(self.root, group))
        wanted = {name: found.etag for name, found in objects.items() if groups.is_file(name)}
        return {name: known.etag for name, known in index.files.items()} == wanted and all(
            name in here or groups.on_demand(name) for name in wanted
        )

    def download(self, group: str, index: Index, objects: Mapping[str, Found] | None = None, *, ours: bool, journal: bool = False) -> None:
        """Fetches the group's small files (journal: and its journal) and updates `index`. The caller has exclusive access to the group.

        ours: this copy had the group last, so that its files are the newest and stay. Otherwise the copy is made equal to the bucket.
        """
        objects = {found.name: found for found in self._listed(group)} if objects is None else objects
        wanted = {name: found for name, found in objects.items() if groups.is_file(name)}
        for name in sorted(groups.files_in(self.root, group), key=writing_order, reverse=True):
            known = index.files.get(name)
            equal = name in wanted and known is not None and known.etag == wanted[name].etag and index.is_uploaded(self.root, name)
            if not ours and not equal:
                (self.root / name).unlink()
        for name, found in sorted(wanted.items(), key=lambda item: writing_order(item[0])):
            if name not in index.files or index.files[name].etag != found.etag:
                index.files[name] = Known(found.etag, found.size)
            if not (self.root / name).exists() and (not groups.on_demand(name) or (journal and name.endswith("/journal.jsonl"))):
                self._fetch(name, index)
        index.files = {name: known for name, known in index.files.items() if name in wanted}

    def _fetch(self, name: str, index: Index) -> None:
        """Downloads one file. Nothing if the object was deleted meanwhile."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            with atomic.replacing(path) as tmp:
                self.bucket.download(name, tmp)
            index.files[name] = index.files[name]._replace(stat=stat_of(path))

    def fetch_missing(self, path: Path) -> None:
        """Fetches the missing tensors and journals at or below `path`."""
        for group in self._groups_at(path):
            with indexes.exclusive(self.root, group) as index:
                for name in self._absent(index, path):
                    self._fetch(name, index)

    def absent_bytes(self, path: Path) -> int:
        """Bytes of the tensors and journals at or below `path` that are only in the bucket."""
        found = [indexes.read(self.root, group) for group in self._groups_at(path)]
        return sum(index.files[name].size for index in found for name in self._absent(index, path))

    def _absent(self, index: Index, path: Path) -> list[str]:
        below = "" if path.absolute() == self.root else self._name(path)
        names = [name for name in index.files if groups.on_demand(name) and f"{name}/".startswith(below and f"{below}/")]
        return [name for name in names if not (self.root / name).exists() and groups.is_needed(self.root, name)]

    def _groups_at(self, path: Path) -> Iterable[str]:
        if path.absolute() == self.root:
            return indexes.groups_known(self.root)
        group = groups.group_of(self._name(path))
        return [] if group is None else [group]

    def _name(self, path: Path) -> str:
        return path.absolute().relative_to(self.root).as_posix()

    # ------------------------------------------------------------ uploading

    def upload(self, group: str, before_each: Callable[[], None]) -> None:
        """Uploads the changed files of a group that this process has, and deletes the objects of files that were removed."""
        with indexes.exclusive(self.root, group) as index:
            for _ in range(TRIES):
                with suppress(FileNotFoundError):  # removed while it was read, for example an older checkpoint
                    return self._upload(group, index, before_each)
        raise RemoteError(f"{self.url}/{group}: its files change faster than they are read")

    def _upload(self, group: str, index: Index, before_each: Callable[[], None]) -> None:
        root, contents = self.root, dict[str, tuple[tuple[int, int] | None, bytes | Path]]()
        records = [name for name in groups.files_in(root, group) if name.endswith(".json") and not index.is_uploaded(root, name)]
        for name in records:  # read before the other files are listed, which therefore include those that the records name
            contents[name] = stat_of(root / name), (root / name).read_bytes()
        here = groups.files_in(root, group)
        for name in here:
            if not name.endswith(".json") and not index.is_uploaded(root, name):
                path = root / name
                contents[name] = stat_of(path), path if name.endswith(".safetensors") else path.read_bytes()
        for name in sorted(contents, key=writing_order):
            before_each()
            fault("remote_pre_upload")
            stat, content = contents[name]
            etag = self.bucket.put(name, content)
            index.files[name] = Known(etag, 0 if stat is None else stat[0], stat=stat)
        gone = [name for name in index.files if name not in (*here, *records)]
        for name in sorted(gone, key=writing_order, reverse=True):
            if not (groups.on_demand(name) and groups.is_needed(root, name)):
                self.bucket.delete(name)
                del index.files[name]

    def push_all(self) -> None:
        """Uploads what a killed process left here and what was not written under a lock. Groups of a live process are skipped."""
        for group in groups.groups_in(self.root):
            index, here = indexes.read(self.root, group), groups.files_in(self.root, group)
            lock = self.root / groups.lock_of(group)
            killed = index.held and run_lock.is_over(run_lock.record_of(lock))
            if killed or not index.claim or not all(index.is_uploaded(self.root, name) for name in here):
                with suppress(LockedError), run_lock.RunLock(lock):
                    pass

    def lease(self, lock: Path, *, steal: bool, timeout: float) -> claims.Lease | None:
        """Claims the group of a lock file; None for a lock of this machine alone."""
        group = groups.group_of_lock(lock, self.root)
        return None if group is None else claims.take(self, group, steal=steal, timeout=timeout)

    # ------------------------------------------------------------ the server, and other machines

    def check_server(self) -> None:
        """UserError if the server ignores the conditions of a PUT, on which claims depend. Compares the clocks. Once per process."""
        if self._clock is not None:
            return
        self.bucket.put(_PROBE, b"")
        for etag in (None, f'"{32 * "f"}"'):
            try:
                self.bucket.put_if(_PROBE, b"", etag)
            except LostRace:
                continue
            raise UserError(f"{self.url}: the server ignores If-None-Match or If-Match; expected one with conditional writes")
        self.bucket.put(_PROBE, b"")
        answer = self.bucket.get(_PROBE)
        self._clock = timedelta() if answer is None else answer[1].modified - datetime.now(UTC)

    def server_now(self) -> datetime:
        """The time of the server's clock."""
        return datetime.now(UTC) + (self._clock or timedelta())

    def follow(self, path: Path) -> None:
        """Updates the sweep of this file (`.stop`) now and regularly while this process has a run."""
        self._followed.add(path)
        with suppress(RemoteError):
            self.pull(path)

    def pull_followed(self) -> None:
        for path in self._followed:
            self.pull(path)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Context: fetches what other machines upload every few seconds."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(claims.BEAT):
                with suppress(UserError):  # the pull at the end of the sweep reports errors
                    self.pull_all()

        thread = threading.Thread(target=run, name="remote-following", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
