"""The ledger in a bucket, against an object store in memory that has conditional writes: what is seen is whole, and one process has it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("obstore", reason="the extra `s3` is not installed")

from orchestrator.errors import FencedError, LockedError, RemoteError, UserError
from orchestrator.ledger import checkpoint, object_store, weights
from orchestrator.ledger.bucket import attach
from orchestrator.ledger.bucket import head as heads
from orchestrator.ledger.bucket import lease as claims
from orchestrator.ledger.bucket.attach import AttachedMirror
from orchestrator.ledger.bucket.bucket import Bucket
from orchestrator.ledger.bucket.head import Head
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock

KEY = "ab" * 32
RUN = KEY[:16]
URL = "s3://bucket/prefix"
TENSORS = {"w": torch.arange(6.0)}


class Machines:
    """Scratch copies of one bucket, each as on a machine of its own; `down`: the server answers nobody."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from obstore.store import MemoryStore

        self.base, self.store, self.down, self.host = base, MemoryStore(), False, "one"
        monkeypatch.setattr("orchestrator.ledger.bucket.lease.POLL", 0.01)
        monkeypatch.setattr("orchestrator.ledger.bucket.lease.PAUSES", (0.01,))
        monkeypatch.setenv(claims.PATIENCE, "0.05")

    def __getattr__(self, name: str) -> Any:
        if self.down:
            raise OSError("connection refused")
        return getattr(self.store, name)

    def machine(self, name: str) -> AttachedMirror:
        """Attached alone from now on."""
        root = self.base / name
        (root / ".remote").mkdir(parents=True, exist_ok=True)
        mirror = AttachedMirror(root, Bucket(URL, self))
        object_store.forget()
        object_store.register(mirror)
        return mirror

    def objects(self) -> list[str]:
        return sorted(found["path"] for chunk in self.store.list() for found in chunk)

    def head(self) -> Head:
        return Head.decode(bytes(self.store.get(f"heads/{RUN}.json").bytes()))


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    yield Machines(tmp_path, monkeypatch)
    object_store.forget()


def lock_of(mirror: AttachedMirror) -> RunLock:
    return RunLock(mirror.root / RUN / "lock")


def train(mirror: AttachedMirror, lock: RunLock, steps: int = 3) -> None:
    run = mirror.root / RUN
    for step in range(1, steps + 1):
        checkpoint.save(run / "ckpt", step, {"model": {"w": TENSORS["w"] + step}}, {"step": step}, key=KEY, lock=lock)
    weights.save_weights(run / "weights", "last", TENSORS, {"step": steps}, key=KEY, lock=lock)
    Ledger(mirror.root, lock=lock).write_train(KEY, {"status": "done", "steps": steps})


def finished(machines: Machines) -> None:
    mirror = machines.machine("one")
    with lock_of(mirror) as lock:
        train(mirror, lock)


def test_another_machine_sees_the_records_and_fetches_tensors_when_asked(machines: Machines) -> None:
    finished(machines)
    other = machines.machine("two")
    other.pull_all()
    assert Ledger(other.root).read_train(KEY) == {"key": KEY, "status": "done", "steps": 3}
    assert not list(other.root.rglob("*.safetensors"))
    found = weights.load_weights(other.root / RUN / "weights", "last", key=KEY)
    assert found is not None and torch.equal(found[0]["w"], TENSORS["w"])
    latest = checkpoint.latest_good(other.root / RUN / "ckpt", key=KEY)
    assert latest is not None and latest.step == 3
    assert len(list(other.root.rglob("*.safetensors"))) == 2


def test_a_pruned_checkpoint_is_gone_from_the_bucket_too(machines: Machines) -> None:
    finished(machines)
    steps = {name.split("/ckpt/")[1].split("/")[0] for name in machines.objects() if "/ckpt/" in name}
    assert steps == {"step-00000002", "step-00000003"}


def test_wrong_bytes_are_refused(machines: Machines) -> None:
    finished(machines)
    (name,) = [name for name in machines.objects() if "/weights/last-" in name]
    machines.store.put(name, b"other bytes")
    other = machines.machine("two")
    other.pull_all()
    with pytest.raises(RemoteError, match="sha256"):
        weights.load_weights(other.root / RUN / "weights", "last", key=KEY)


def test_a_second_process_is_refused_by_name_and_a_silent_one_is_followed(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machines.machine("one")
    lock = lock_of(first).acquire()
    train(first, lock, steps=2)
    second = machines.machine("two")
    with pytest.raises(LockedError, match=rf"{URL}/{RUN}: locked by process {os.getpid()} on .* \(epoch 1\)"):
        lock_of(second).acquire()
    monkeypatch.setattr(heads, "LEASE", -1.0)
    lease = lock._lease
    lease._end_thread()  # the owner hangs, and wakes up too late
    lease.publish()
    with lock_of(second) as newer:
        assert newer._lease.head.epoch == 2
        before = machines.objects()
        (first.root / RUN / "history.jsonl").write_text("{}\n")
        with pytest.raises(FencedError, match="epoch 1 is over, now process"):
            lease.publish()
        assert machines.head().epoch == 2 and "history.jsonl" not in str(machines.head().files)
        assert set(before) <= set(machines.objects())  # it removed nothing of the newer owner's
        with pytest.raises(FencedError):
            lock.check()
        assert Ledger(second.root).read_train(KEY) is not None  # what was published is what it goes on from
    lock.release()


def test_killed_between_contents_and_head(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = machines.machine("one")
    lock = lock_of(mirror).acquire()
    lock._lease._end_thread()
    train(mirror, lock)
    monkeypatch.setenv("NMT_FAULT", "remote_pre_commit:raise")
    with pytest.raises(RuntimeError, match="injected"):
        lock._lease.publish()
    monkeypatch.delenv("NMT_FAULT")
    assert any(name.startswith(f"files/{RUN}/train.json") for name in machines.objects())
    other = machines.machine("two")
    other.pull_all()
    assert Ledger(other.root).read_train(KEY) is None and not list((other.root / RUN).glob("ckpt"))
    assert object_store.orphans(other.root, delete=False) == []  # a process has the run: an upload may be under way
    monkeypatch.setattr(heads, "LEASE", -1.0)
    with lock_of(other):
        pass
    lost = object_store.orphans(other.root, delete=False)
    assert {orphan.name for orphan in lost} == {name for name in machines.objects() if name.startswith("files/")} != set()
    object_store.orphans(other.root, delete=True)
    assert not [name for name in machines.objects() if name.startswith("files/")]
    lock._lease = None
    lock.release()


def test_a_server_that_is_away_holds_nothing_up_until_the_end(machines: Machines, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = machines.machine("one")
    lock = lock_of(mirror).acquire()
    machines.down = True
    train(mirror, lock)  # goes on
    with pytest.raises(RemoteError, match=f"not published: {RUN}; the same command publishes it later"):
        lock.release()
    assert "connection refused" in capsys.readouterr().err
    machines.down = False
    with RunLock(mirror.root / "sweeps" / "name.lock"):  # the sweep that it belongs to ends
        pass
    assert not mirror.open_leases and not machines.head().held and f"{RUN}/train.json" in machines.head().files


def test_what_a_killed_process_left_here_is_published_by_the_next_one(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = machines.machine("one")
    lock = lock_of(mirror).acquire()
    lock._lease._end_thread()
    train(mirror, lock)
    lock._lease, lock._token = None, ""
    lock.release()  # as a kill does: the head still says that it is held
    monkeypatch.setattr("orchestrator.ledger.bucket.acquire.is_over", lambda record: True)
    again = machines.machine("one")
    again.pull_all()
    assert Ledger(again.root).read_train(KEY) is not None  # nothing older came over it
    object_store.push(again.root)
    assert not machines.head().held and f"{RUN}/train.json" in machines.head().files


def test_a_manifest_is_not_seen_without_its_tensors(machines: Machines) -> None:
    mirror = machines.machine("one")
    with lock_of(mirror) as lock:
        train(mirror, lock)
        (file,) = (mirror.root / RUN / "weights").glob("*.safetensors")
        lock._lease._end_thread()  # it may have published a copy of the file, which the head below does not name
        file.unlink()
        lock._lease.head = lock._lease.head.next(files={})
        lock._lease.publish()
        assert not [name for name in machines.head().files if "/weights/" in name]
        assert f"{RUN}/train.json" in machines.head().files


def test_a_server_without_conditions_is_refused(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = machines.machine("one")
    monkeypatch.setattr(mirror.bucket, "_conditional", lambda name, content, mode: "etag")
    with pytest.raises(UserError, match="ignores If-None-Match or If-Match"):
        lock_of(mirror).acquire()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/x", "expected a folder or a bucket, as in s3://bucket/prefix"),
        ("s3:///x", "expected a folder or a bucket"),
        ("s3://AKIAKEY:geheim@bucket/x", "holds credentials or options; expected them in the environment"),
        ("s3://bucket/../x", "expected a prefix of plain names"),
    ],
)
def test_bad_urls_are_one_line_without_secrets(url: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        attach.place(url)
    (line,) = error.value.lines
    assert said in line and "geheim" not in line and "AKIAKEY" not in line


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    monkeypatch.setenv("NMT_SCRATCH", str(tmp_path))
    with pytest.raises(UserError, match=r"needs the package obstore; expected pip install '\.\[s3\]' in the checkout"):
        attach.place(URL)


def test_the_scratch_copy_is_not_a_results_folder(machines: Machines) -> None:
    root = machines.machine("one").root
    (root / ".remote" / "url").write_text(URL + "\n")
    with pytest.raises(UserError, match=f"is the scratch copy of {URL}; expected that URL"):
        attach.place(root)
    assert attach.place("file:///some/folder") == Path("/some/folder")


def test_a_damaged_head_says_so(machines: Machines) -> None:
    finished(machines)
    text = bytes(machines.store.get(f"heads/{RUN}.json").bytes()).replace(b'"steps"', b'"stept"')
    body: dict[str, Any] = json.loads(text)
    body["epoch"] = 9
    machines.store.put(f"heads/{RUN}.json", json.dumps(body).encode())
    check: Callable[[], None] = machines.machine("two").pull_all
    with pytest.raises(UserError, match=f"heads/{RUN}.json: is no head of this program"):
        check()
