"""A new database is made without waiting for the disk; from then on every write waits again."""

from __future__ import annotations

from pathlib import Path

from orchestrator.tracking.store import MlflowStore


def test_a_new_store_writes_as_carefully_as_an_old_one(tmp_path: Path) -> None:
    for store in (MlflowStore(tmp_path), MlflowStore(tmp_path)):  # the first makes it
        engine = store.client._tracking_client.store.engine
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert store.search("none") == []
