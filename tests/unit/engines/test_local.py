"""A sweep of many runs in one process keeps no file of a run open that has ended."""

import os
from unittest.mock import Mock

import pytest

from orchestrator.engines import local
from orchestrator.errors import LockedError
from orchestrator.ledger.keys import Keys
from orchestrator.sweeps import row
from orchestrator.sweeps.task import Task
from orchestrator.training.metrics import HistoryReporter
from tests.unit.training.support import changed

FILES = ("journal.jsonl", "history.jsonl", "lock")


def open_files(folder) -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            path = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except OSError:
            continue
        found += [path] if path.startswith(str(folder)) else []
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")  # noqa: PTH112
def test_a_run_that_ended_leaves_no_file_open(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(row, "_decode_and_score", lambda *arguments: None)
    during = []
    report = HistoryReporter.__call__
    monkeypatch.setattr(HistoryReporter, "__call__", lambda *a: (report(*a), during.append(open_files(tmp_path))))
    spec = changed(train={"max_steps": 1, "validate_every": 1, "checkpoint_every": 1, "snapshots": 0})
    tasks = [
        Task("demo/many/row", seed, spec.model_copy(update={"seed": seed}), keys(seed), str(tmp_path), cache_dir=str(prepared.path.parent))
        for seed in range(1, 5)
    ]

    assert local.run([[task] for task in tasks], None) == {}
    assert max(len(files) for files in during) == len(FILES)  # of one run at a time

    monkeypatch.setattr(row.Trainer, "after_step", Mock(side_effect=LockedError("held")))
    again = Task("demo/many/bad", 1, spec, keys(99), str(tmp_path), cache_dir=str(prepared.path.parent))
    assert local.run([[again]], None) == {again.name: f"{LockedError.NAMED}held"}
    assert open_files(tmp_path) == []


def keys(number: int) -> Keys:
    return Keys(f"{number:064x}"[::-1], "0" * 64, "1" * 64)
