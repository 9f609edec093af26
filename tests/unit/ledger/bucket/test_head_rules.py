"""Who may take a group when, which copy is ahead, and what of a group may be seen together."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore", reason="the extra `s3` is not installed")

from orchestrator.errors import FencedError, LockedError
from orchestrator.files.canonical import digest
from orchestrator.ledger import object_store
from orchestrator.ledger.bucket import group as groups
from orchestrator.ledger.bucket.attach import AttachedMirror
from orchestrator.ledger.bucket.bucket import Bucket
from orchestrator.ledger.bucket.head import Entry, Head
from orchestrator.ledger.bucket.index import Index
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock

KEY = "ab" * 32
RUN = KEY[:16]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`machine(name)`: a scratch copy of one bucket in memory, attached alone from then on; the lock of RUN in it."""
    from obstore.store import MemoryStore

    store = MemoryStore()
    monkeypatch.setattr("orchestrator.ledger.bucket.lease.POLL", 0.01)

    def made(name: str) -> RunLock:
        root = tmp_path / name
        (root / ".remote").mkdir(parents=True, exist_ok=True)
        object_store.forget()
        object_store.register(AttachedMirror(root, Bucket("s3://bucket/prefix", store)))
        return RunLock(root / RUN / "lock")

    yield made
    object_store.forget()


def test_a_group_is_free_when_it_was_given_back_and_stolen_when_somebody_says_so(machine: Any) -> None:
    one = machine("one").acquire()
    one.release()
    two = machine("two").acquire()
    assert two._lease.head.epoch == 2, "at once: nobody waits for a lease that was given back"
    three = machine("three")
    with pytest.raises(LockedError, match="epoch 2"):
        three.acquire()
    assert three.acquire(steal=True)._lease.head.epoch == 3
    with pytest.raises(FencedError, match="epoch 2 is over"):
        two._lease.publish()
    assert two._lease.lost is not None
    with pytest.raises(FencedError):
        two.check()
    two._lease._end_thread()
    three.release()


@pytest.mark.parametrize(("mine", "epoch", "ahead"), [(0, 0, False), (0, 3, False), (2, 3, False), (3, 3, True)])
def test_a_copy_is_ahead_where_it_had_the_group_last(mine: int, epoch: int, ahead: bool) -> None:
    assert Index(mine=mine, epoch=epoch).ahead is ahead


def test_a_head_is_read_whole_and_of_this_format_alone() -> None:
    head = Head(RUN, epoch=2, beat=5, held=True, owner={"token": "x"}, files={f"{RUN}/train.json": Entry("a", 1, "b")})
    assert Head.decode(head.encode()) == head and head.next(held=False).beat == 6
    body = {name: value for name, value in json.loads(head.encode()).items() if name != "digest"}
    for other in (body | {"format": 2}, body | {"epoch": 3}):
        sealed = json.dumps(other | {"digest": digest(other if other["format"] == 2 else body)}).encode()
        with pytest.raises(ValueError, match="not a whole head"):
            Head.decode(sealed)


def test_a_record_of_a_decoding_is_seen_with_its_own_texts_alone(tmp_path: Path) -> None:
    Ledger(tmp_path).write_decode(KEY, "cd" * 32, {}, ["a", "b"])
    record, text = (f"{RUN}/decode/{'cd' * 8}.{end}" for end in ("json", "txt"))
    known = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in (record, text)}
    assert groups.consistent(tmp_path, known) == {record, text}
    assert groups.consistent(tmp_path, {record: known[record]}) == set()
    assert groups.consistent(tmp_path, known | {text: "0" * 64}) == {text}
