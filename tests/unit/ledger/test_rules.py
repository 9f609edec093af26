"""Who owns a run, by its record alone; the average of snapshots."""

import json
import os
import socket

import pytest

from orchestrator.ledger import run_lock
from orchestrator.ledger.run_lock import is_over, owner

KEY = "ab" * 32


@pytest.mark.parametrize(
    ("change", "alive", "over"),
    [
        ({}, True, False),
        ({"start_time": -1}, False, True),  # the pid is another process's by now
        ({"pid": 2**30}, False, True),
        ({"boot_id": "another boot"}, False, False),  # whatever it was, it ended with that boot
        ({"boot_id": None}, True, False),
        ({"host": "elsewhere"}, True, False),  # nobody here can know
        ({"host": "elsewhere", "start_time": -1}, True, False),
        ({"boot_id": "another boot", "start_time": -1}, False, False),
        ({"held": False}, False, False),
    ],
)
def test_whose_record_stands_beside_a_lock(tmp_path, change, alive, over):
    """alive: counted as an owner. over: surely a dead process of this machine in this boot, whose lease nobody need wait for."""
    record = {**run_lock.identity(), "epoch": 3, "token": "x", "held": True} | change
    (tmp_path / "lock.json").write_text(json.dumps(record))
    assert (owner(tmp_path / "lock") is not None) is alive
    assert is_over(record) is over
    assert run_lock.identity()["pid"] == os.getpid() and run_lock.identity()["host"] == socket.gethostname()
