"""A lease of a group held by this process: publishes changed files until it is released. The package's docstring has the protocol."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import time
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from orchestrator.errors import FencedError, RemoteError
from orchestrator.faults import fault
from orchestrator.ledger.bucket import group as groups
from orchestrator.ledger.bucket import head as heads
from orchestrator.ledger.bucket.bucket import Found, LostRace
from orchestrator.ledger.bucket.head import Entry, Head, described, names_of, sha256_of
from orchestrator.ledger.bucket.index import Index, stat_of

if TYPE_CHECKING:
    from orchestrator.ledger.bucket.mirror import Mirror

POLL = 1.0
"""Seconds between two scans of the folder."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds before each retry; the last value repeats."""
PATIENCE = "NMT_REMOTE_PATIENCE"
"""Environment variable: seconds (default 120) to wait for the server when a lock is released."""


class Lease:
    """A held group. `lost`: why nothing more is published, once another process took the group."""

    def __init__(self, mirror: Mirror, head: Head, etag: str, index: Index) -> None:
        self.mirror, self.head, self.etag, self.index = mirror, head, etag, index
        self.lost: str | None = None
        self._stop, self._thread = threading.Event(), threading.Thread()
        self._mutex = threading.Lock()
        self._beaten = time.monotonic()
        self._seen: dict[str, list[int] | None] = {}
        self._pid = os.getpid()

    @property
    def where(self) -> str:
        return f"{self.mirror.url}/{self.head.group}"

    def start(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"remote-{self.head.group}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """FencedError if another process took the group."""
        if self.lost is not None:
            raise FencedError(f"{self.where}: {self.lost}; nothing more is written")

    def release(self, *, quiet: bool = False) -> None:
        """Publishes the rest and releases the group. RemoteError if the server stayed unreachable (`quiet`: a warning on stderr)."""
        if os.getpid() != self._pid:
            return
        self._end_thread()
        reason = self._finish(float(os.environ.get(PATIENCE, "120")) if not self.mirror.open_leases else 5.0)
        if reason is None and self.head.group.startswith("sweeps/"):
            reason = self._finish_others()
        if reason is not None:
            if self.lost is None and self.head.held:
                self.mirror.open_leases[self.head.group] = self
            groups_left = ", ".join(sorted(self.mirror.open_leases))
            line = f"{reason}; not published: {groups_left}; the same command publishes it later from {self.mirror.root}"
            if not quiet:
                raise RemoteError(line)
            print(f"warning: {line}", file=sys.stderr)

    def abandon(self) -> None:
        """Releases an unused lease, so that the next owner need not wait for it to expire."""
        with contextlib.suppress(FencedError, RemoteError, OSError):
            self._commit(self.head.next(held=False))

    def reopen(self) -> None:
        """Resumes the lease if this process takes the group again before it could be released."""
        self.start()

    def _end_thread(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _finish(self, patience: float) -> str | None:
        """Returns why the group could not be released; None if it was, or if another process has it (`check` reports that)."""
        deadline, told = time.monotonic() + patience, False
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            try:
                self.publish(held=False)
                return None
            except FencedError:
                return None
            except (RemoteError, OSError) as error:
                if time.monotonic() + pause > deadline:
                    return str(error)
                if not told:
                    print(f"{error}; trying again for {patience:.0f} s", file=sys.stderr)
                told = True
                time.sleep(pause)
        return None

    def _finish_others(self) -> str | None:
        """Publishes runs that could not be published before, at the end of their sweep."""
        for group, lease in list(self.mirror.open_leases.items()):
            reason = lease._finish(5.0)
            if reason is not None:
                return reason
            del self.mirror.open_leases[group]
        return None

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        failures = 0
        pause = POLL
        while not self._stop.wait(pause):
            try:
                if self._due():
                    self.publish()
                    self.mirror.pull_followed()
                    if failures:
                        print(f"{self.where}: published again", file=sys.stderr)
                failures, pause = 0, POLL
            except FencedError as error:
                print(f"error: {error}", file=sys.stderr)
                return
            except (RemoteError, OSError) as error:
                if not failures:
                    print(f"warning: {error}; the work continues and is published later", file=sys.stderr)
                pause = PAUSES[min(failures, len(PAUSES) - 1)]
                failures += 1

    def _due(self) -> bool:
        """Whether a file other than an append-only one changed, or the last write is a heartbeat ago."""
        if time.monotonic() - self._beaten >= heads.BEAT:
            return True
        names = [name for name in groups.files_in(self.mirror.root, self.head.group) if not groups.append_only(name)]
        return {name: stat_of(self.mirror.root / name) for name in names} != self._seen

    # ------------------------------------------------------------ publishing

    def publish(self, *, held: bool = True) -> None:
        """Uploads contents, then the head that names them. FencedError if another process has the group; RemoteError may be retried."""
        with self._mutex, self.mirror.indexes.exclusive(self.head.group):
            self.check()
            files, stats = self._upload()
            fault("remote_pre_commit")
            self._commit(self.head.next(files=files, held=held))
            self._seen = {name: stat for name, stat in stats.items() if not groups.append_only(name)}
            self._beaten = time.monotonic()

    def _commit(self, head: Head) -> None:
        before, name = self.head, heads.name_of(self.head.group)
        try:
            self.etag = self.mirror.bucket.swap(name, head.encode(), self.etag)
        except (LostRace, RemoteError) as error:
            mine = mine_of(self.mirror, self.head.group, head)
            if mine is None and isinstance(error, RemoteError):
                raise
            if mine is None:
                answer = heads.read(self.mirror.bucket, self.head.group)
                who = "its head was removed" if answer is None else f"epoch {before.epoch} is over, now {described(answer[0])}"
                self.lost = who
                raise FencedError(f"{self.where}: {who}; nothing more is written") from None
            self.etag = mine.etag
        self.head = head
        fault("remote_post_commit")
        self.index.saw(head, self.etag)
        self.mirror.indexes.write(head.group, self.index)
        self.mirror.bucket.delete(sorted(names_of(before.files.values()) - names_of(head.files.values())))

    def _upload(self) -> tuple[dict[str, Entry], dict[str, list[int] | None]]:
        """Uploads changed contents. Returns the entries to publish, and the stats of the files from which they were made."""
        for _ in range(heads.TRIES):
            try:
                return self._upload_once()
            except FileNotFoundError:
                continue  # removed while it was read, for example an older checkpoint
        raise RemoteError(f"{self.where}: its files change faster than they are read")

    def _upload_once(self) -> tuple[dict[str, Entry], dict[str, list[int] | None]]:
        root, group = self.mirror.root, self.head.group
        here = groups.files_in(root, group)
        stats = {name: stat_of(root / name) for name in here}
        found: dict[str, Entry] = {name: entry for name, entry in self.head.files.items() if groups.on_demand(name) and name not in stats}
        contents: dict[str, Any] = {}
        for name in here:
            if self.index.stats.get(name) == stats[name] and name in self.index.files:
                found[name] = self.index.files[name]
                continue
            content = root / name if groups.of_tensors(name) else (root / name).read_bytes()
            found[name] = self._entry(name, content)
            contents[name] = content
        kept = groups.consistent(root, {name: entry.sha256 for name, entry in found.items()})
        for name in sorted(kept & set(contents), key=groups.publishing_order):
            if self.head.files.get(name) == found[name]:
                continue
            fault("remote_pre_upload")
            self.mirror.bucket.put(found[name].object, contents[name])
        unchanged = {name: stat for name, stat in stats.items() if stat is not None and name in kept and stat_of(root / name) == stat}
        self.index.stats = unchanged
        self.index.files = dict(found)
        return {name: found[name] for name in sorted(kept)}, stats

    def _entry(self, name: str, content: Any) -> Entry:
        sha = hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else sha256_of(content)
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        known = self.head.files.get(name)
        if known is not None and known.sha256 == sha:
            return known
        return Entry(sha, size, f"files/{name}.{self.head.epoch}-{sha[:16]}")


def mine_of(mirror: Mirror, group: str, head: Head) -> Found | None:
    """The stored object if it is this very head, although its write was answered with an error; else None."""
    try:
        answer = heads.read(mirror.bucket, group)
    except RemoteError:
        return None
    return answer[1] if answer is not None and (answer[0].token, answer[0].beat) == (head.token, head.beat) else None
