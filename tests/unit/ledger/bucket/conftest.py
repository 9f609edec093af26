"""An object store in memory that has conditional writes, and machines with a scratch copy each."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.ledger import object_store
from orchestrator.ledger.bucket import lease
from orchestrator.ledger.bucket.bucket import Bucket
from orchestrator.ledger.bucket.mirror import Mirror
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
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
        monkeypatch.setenv(lease.PATIENCE, "0.05")

    def __getattr__(self, name: str):
        if self.down:
            raise OSError("connection refused")
        return getattr(self.store, name)

    def machine(self, name: str) -> Mirror:
        """Attached alone from now on."""
        root = self.base / name
        (root / ".remote").mkdir(parents=True, exist_ok=True)
        mirror = Mirror(root, Bucket(URL, self))
        object_store._mirrors.clear()
        object_store.register(mirror)
        return mirror

    def objects(self) -> list[str]:
        return sorted(found["path"] for chunk in self.store.list() for found in chunk)

    def claim(self) -> dict[str, Any]:
        return dict(json.loads(bytes(self.store.get(f"{RUN}/lock.json").bytes())))


@pytest.fixture
def machines(tmp_path, monkeypatch) -> Iterator[Machines]:
    yield Machines(tmp_path, monkeypatch)
    object_store._mirrors.clear()


def lock_of(mirror: Mirror) -> RunLock:
    return RunLock(mirror.root / RUN / "lock")


def train(mirror: Mirror, lock: RunLock, steps: int = 3) -> None:
    store = Store(mirror.root / RUN, KEY, lock)
    for step in range(1, steps + 1):
        store.save(step, {"model": {"w": TENSORS["w"] + step}}, {"step": step})
    store.save_weights("last", TENSORS, steps)
    Ledger(mirror.root, lock=lock).write_train(KEY, {"status": "done", "steps": steps})


def elsewhere(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """A second machine: the first owner's process counts as one of another machine there."""
    monkeypatch.setattr(lease, "identity", lambda: {"host": "elsewhere", "pid": os.getpid()})
    return machines.machine("two")


def stopped(lock: RunLock) -> lease.Lease:
    """The lease of an owner whose thread uploads nothing."""
    held: lease.Lease = lock._lease
    held.stop()
    return held


def finished(machines: Machines) -> None:
    mirror = machines.machine("one")
    with lock_of(mirror) as lock:
        train(mirror, lock)
