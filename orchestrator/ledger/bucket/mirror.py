"""The scratch copy of a bucket's ledger: fetches what is newer in the bucket, tensors on demand."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.errors import LockedError, RemoteError, UserError
from orchestrator.files import atomic
from orchestrator.ledger.bucket import group as groups
from orchestrator.ledger.bucket import head as heads
from orchestrator.ledger.bucket.bucket import Bucket, Found, LostRace
from orchestrator.ledger.bucket.head import BEAT, LEASE, TRIES, Entry, Head, sha256_of
from orchestrator.ledger.bucket.index import Index, Indexes, stat_of
from orchestrator.ledger.run_lock import RunLock, record_of
from orchestrator.paths import user_cache

AT_ONCE = 8
"""Objects fetched concurrently."""


def scratch_of(url: str) -> Path:
    """Returns the scratch folder of a URL, below NMT_SCRATCH or the user's cache; one folder per URL."""
    base = os.environ.get("NMT_SCRATCH") or str(user_cache() / "remote")
    name = url.partition("://")[2].replace("/", "-")[-60:]
    return Path(base).absolute() / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


class Mirror:
    """`root`: the scratch folder; `open_leases`: leases of released locks whose last state is not yet published, by group."""

    def __init__(self, root: Path, bucket: Bucket) -> None:
        self.root, self.bucket, self.url = root, bucket, bucket.url
        self.indexes = Indexes(root)
        self.open_leases: dict[str, Any] = {}  # values: Lease
        self.followed: set[str] = set()
        self._conditional = False

    # ------------------------------------------------------------ fetching

    def pull_all(self) -> None:
        """Pulls every group whose head changed. UserError if the server does not answer."""
        try:
            found = [one for one in self.bucket.list("heads") if one.name.endswith(".json") and one.name != heads.name_of("lifecycle")]
            changed = [one for one in found if self._changed(one)]
            if len(changed) > 50:
                print(f"{self.url}: fetching {len(changed)} runs", file=sys.stderr)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(self._pull_found, changed))
        except RemoteError as error:
            raise UserError(f"--results {error}") from None

    def pull(self, path: Path) -> None:
        """Pulls the group of a file or folder. RemoteError if the server does not answer."""
        group = groups.group_of_path(path, self.root)
        answer = None if group is None else heads.read(self.bucket, group)
        if answer is not None:
            self._pull(*answer)

    def _changed(self, found: Found) -> bool:
        group = heads.group_of(found.name)
        index = self.indexes.read(group)
        return index.etag != found.etag or index.held or not self.is_here(group, index)

    def is_here(self, group: str, index: Index) -> bool:
        """Returns False if a user removed the group's files from the copy. They are then fetched again; a removal is never published."""
        return not index.files or bool(groups.files_in(self.root, group))

    def _pull_found(self, found: Found) -> None:
        answer = heads.read(self.bucket, heads.group_of(found.name))
        if answer is not None:
            self._pull(*answer)

    def _pull(self, head: Head, found: Found) -> None:
        if self._is_ours(head, self.indexes.read(head.group)):
            return
        with self.indexes.exclusive(head.group):
            index = self.indexes.read(head.group)
            if not self._is_ours(head, index):
                self.become(head, found, index)
                self._sign(head, found)

    def _is_ours(self, head: Head, index: Index) -> bool:
        """Whether the local copy is newer than this head, or no other process took the group since this copy had it."""
        return head.epoch < index.epoch or (index.ahead and head.epoch == index.epoch and self.is_here(head.group, index))

    def become(self, head: Head, found: Found, index: Index) -> None:
        """Makes the local copy of the group equal to its head. The caller has exclusive access (`Indexes.exclusive`)."""
        for _ in range(TRIES):
            try:
                self._write(head, index)
                break
            except FileNotFoundError:  # replaced meanwhile: a newer head names the new objects
                answer = heads.read(self.bucket, head.group)
                if answer is None:
                    return
                head, found = answer
        else:
            raise RemoteError(f"{self.url}: {head.group} names an object that is not there")
        index.saw(head, found.etag)
        index.stats = {name: stat for name in head.files if (stat := stat_of(self.root / name)) is not None}
        index.mine = 0
        self.indexes.write(head.group, index)

    def _write(self, head: Head, index: Index) -> None:
        here = groups.files_in(self.root, head.group)
        known = {name for name in here if name in head.files and index.files.get(name) == head.files[name] and index.knows(self.root, name)}
        known |= {name for name in here if name in head.files and name not in known and self._same(name, head.files[name])}
        doomed = [name for name in here if name not in known and (name not in head.files or groups.on_demand(name))]
        done = f"{head.group}/train.json"
        if (self.root / done).exists() and done not in known:
            (self.root / done).unlink()  # unfinished while files are replaced; it is written again last
        for name in sorted(doomed, key=groups.publishing_order, reverse=True):
            (self.root / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                (self.root / name).parent.rmdir()
        for name in sorted(head.files, key=groups.publishing_order):
            if name not in known and not groups.on_demand(name):
                self.fetch(name, head.files[name])

    def _same(self, name: str, entry: Entry) -> bool:
        path = self.root / name
        return path.stat().st_size == entry.bytes and sha256_of(path) == entry.sha256

    def fetch(self, name: str, entry: Entry) -> None:
        """Downloads and verifies one file. FileNotFoundError if the object is gone; RemoteError if its sha256 is not the head's."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        tmp = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            self.bucket.download(entry.object, tmp)
            if sha256_of(tmp) != entry.sha256:
                raise RemoteError(f"{self.url}/{entry.object}: its sha256 is not the one in the head")
            tmp.replace(path)
        finally:
            tmp.unlink(missing_ok=True)

    def fetch_missing(self, path: Path) -> None:
        """Fetches the missing tensors and journals at or below `path` that the head names."""
        if path.absolute() == self.root:
            for each in groups.groups_in(self.root):
                self._fetch_group(each, self._below(self.root / each))
            return
        group = groups.group_of_path(path, self.root)
        if group is not None:
            self._fetch_group(group, self._below(path))

    def _fetch_group(self, group: str, below: str) -> None:
        """If an object is gone, the newer head is consulted; a file that it does not name stays absent."""
        for name, entry in self._absent(group, below):
            try:
                self.fetch(name, entry)
            except FileNotFoundError:
                self.pull(self.root / name)
                newer = self.indexes.read(group).files.get(name, entry)
                with contextlib.suppress(FileNotFoundError):
                    if newer != entry:
                        self.fetch(name, newer)

    def _absent(self, group: str, below: str) -> list[tuple[str, Entry]]:
        files = self.indexes.read(group).files
        names = [name for name in files if groups.on_demand(name) and (name == below or name.startswith(f"{below}/"))]
        return [(name, files[name]) for name in names if not (self.root / name).exists() and groups.is_needed(self.root, name)]

    def _below(self, path: Path) -> str:
        return path.absolute().relative_to(self.root).as_posix()

    def absent_bytes(self, path: Path) -> int:
        group = groups.group_of_path(path, self.root)
        if group is None:
            return 0
        return sum(entry.bytes for _, entry in self._absent(group, self._below(path)))

    # ------------------------------------------------------------ owners

    def _sign(self, head: Head, found: Found) -> None:
        """Writes the owner's record beside the lock file, for `status`, `gc` and `import`. The owner's own machine writes it itself."""
        lock = groups.lock_of(head.group, self.root)
        known = record_of(lock)
        age = time.time() - found.modified.timestamp()  # only for display; `lease` uses the server's clock
        held = head.held and age < 3 * LEASE
        owner = {name: value for name, value in head.owner.items() if name != "token"}
        record: dict[str, Any] = owner | {"epoch": head.epoch, "held": held, "remote": True}
        if (held or known.get("remote")) and lock.parent.is_dir():
            atomic.write_json(lock.with_name(f"{lock.name}.json"), record)

    def server_now(self) -> datetime:
        """The time of the server's clock, from a small object written for the purpose."""
        with self._probe() as name:
            answer = self.bucket.get(name)
            assert answer is not None
            return answer[1].modified

    def check_conditions(self) -> None:
        """UserError if the server ignores the conditions of a PUT, on which locking depends. Checked once per process."""
        if self._conditional:
            return
        with self._probe() as name:
            for again in (partial(self.bucket.create, name, b"second"), partial(self.bucket.swap, name, b"third", f'"{32 * "f"}"')):
                try:
                    again()
                except LostRace:
                    continue
                raise UserError(f"{self.url}: the server ignores If-None-Match or If-Match; expected one with conditional writes")
        self._conditional = True

    @contextmanager
    def _probe(self) -> Iterator[str]:
        name = f"probe/{secrets.token_hex(8)}"
        self.bucket.create(name, b"probe")
        try:
            yield name
        finally:
            with contextlib.suppress(RemoteError):
                self.bucket.delete([name])

    # ------------------------------------------------------------ publishing and following

    def push_all(self) -> None:
        """Publishes what a killed process left here and what was not written under a lock. Groups owned by a live process are skipped."""
        for group in groups.groups_in(self.root):
            index = self.indexes.read(group)
            here = groups.files_in(self.root, group)
            same = all(index.knows(self.root, name) for name in here) and all(
                name in here or groups.on_demand(name) for name in index.files
            )
            if not same or not index.etag or (index.held and index.ahead):
                with contextlib.suppress(LockedError), RunLock(groups.lock_of(group, self.root)):
                    pass

    def follow(self, path: Path) -> None:
        group = groups.group_of_path(path, self.root)
        if group is not None:
            self.followed.add(group)

    def pull_followed(self) -> None:
        for group in self.followed:
            answer = heads.read(self.bucket, group)
            if answer is not None:
                self._pull(*answer)

    @contextmanager
    def following(self) -> Iterator[None]:
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(BEAT):
                with contextlib.suppress(UserError, RemoteError):  # the pull at the end of the sweep reports errors
                    self.pull_all()

        thread = threading.Thread(target=run, name="remote-following", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
