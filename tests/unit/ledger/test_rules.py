"""Who owns a run, by its record alone; what of a lost timeline stays; the order of reports and places."""

import json
import os
import socket

import pytest
import torch

from orchestrator.errors import LockedError
from orchestrator.ledger import run_lock
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_lock import RunLock, is_over, owner
from orchestrator.ledger.weights import copy_into
from tests.unit.history import append_history

KEY, OTHER = "ab" * 32, "cd" * 32


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


def test_a_newer_attempt_at_the_same_work_takes_the_lock_and_no_other_does(tmp_path):
    first = RunLock(tmp_path / "lock", "job-1").acquire()
    for stranger in ("job-2", ""):
        with pytest.raises(LockedError):
            RunLock(tmp_path / "lock", stranger).acquire()
    first.check()
    second = RunLock(tmp_path / "lock", "job-1").acquire()
    assert second.epoch == first.epoch + 1
    second.check()
    with pytest.raises(run_lock.FencedError):
        first.check()
    second.release()
    plain = RunLock(tmp_path / "lock").acquire()
    with pytest.raises(LockedError):
        RunLock(tmp_path / "lock", "job-1").acquire()
    plain.release()


def test_an_average_is_the_mean_of_every_snapshot_and_a_copy_is_of_every_parameter(tmp_path):
    for step, values in ((1, (1.0, 10.0)), (2, (2.0, 20.0)), (3, (6.0, 60.0))):
        Store(tmp_path, KEY).save_snapshot(step, {name: torch.full((2,), value) for name, value in zip("ab", values, strict=True)}, 3)
    average = Store(tmp_path, KEY).weights("average")
    assert {name: value.tolist() for name, value in average.items()} == {"a": [3.0, 3.0], "b": [30.0, 30.0]}
    model = torch.nn.ParameterDict({name: torch.zeros(2) for name in "ab"})
    copy_into(model, average)
    assert {name: value.tolist() for name, value in model.items()} == {"a": [3.0, 3.0], "b": [30.0, 30.0]}


def test_reports_stand_in_order_of_steps_and_a_run_once_in_the_first_place_that_has_it(tmp_path):
    here, mirror = Ledger(tmp_path / "here"), Ledger(tmp_path / "mirror")
    for step in (30, 10, 20):
        append_history(here, KEY, {"step": step})
    assert [report["step"] for report in here.history(KEY)] == [10, 20, 30]
    for ledger, bleu in ((here, 1.0), (mirror, 2.0)):
        ledger.write_train(KEY, {"status": "done", "bleu": bleu})
    mirror.write_train(OTHER, {"status": "done"})
    both = Ledger(tmp_path / "here", [tmp_path / "mirror"])
    assert both.runs() == [KEY, OTHER]
    found = both.read_train(KEY)
    assert found is not None and found["bleu"] == 1.0
