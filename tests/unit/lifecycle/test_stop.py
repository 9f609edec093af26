"""Asked once, waited for, told what it left; a process that is not the lock's owner is never signalled."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.ledger.run_lock import owner
from orchestrator.lifecycle.stopping import stop
from tests.unit.lifecycle.life import ROOT, put

DRIVER = """
import sys, time
from pathlib import Path
from orchestrator import interrupt
from orchestrator.ledger.run_lock import RunLock
with interrupt.listening(), RunLock(Path(sys.argv[1])):
    while not interrupt.requested():
        time.sleep(0.01)
    time.sleep(float(sys.argv[2]))  # a second signal would end it here, with a traceback
Path(sys.argv[3]).write_text("saved")
"""


@pytest.fixture
def driver(tmp_path):
    """Starts a process that drives what `lock` names, and ends `linger` seconds after it is asked to."""
    started: list[subprocess.Popen[bytes]] = []

    def start(lock: Path, linger: float = 0.0) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", DRIVER, str(lock), str(linger), str(tmp_path / "saved")]
        started.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 30
        while owner(lock) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def sweep(fake_results):
    """results, the sweep's lock; one row done, one unfinished with a checkpoint at step 3."""
    done, cut = fake_results.row("done"), fake_results.row("cut")
    fake_results.finished(done)
    fake_results.history(cut, 1, 3)
    put(fake_results.run_dir(cut) / "ckpt" / "step-00000003" / "manifest.json")
    fake_results.sweep([done, cut], name="fake/table1+8818a9af@smoke")
    return fake_results.root, fake_results.root / "sweeps" / "sweep-1.lock"


@pytest.mark.parametrize("name", [None, "sweep-1", "fake/table1", "fake/table1+8818a9af@smoke", "fake/table1/cut", "fake/table1/cut:1"])
def test_the_driver_is_asked_and_waited_for(sweep, driver, tmp_path, cli, name):
    results, lock = sweep
    process = driver(lock)
    code, out, err = cli("stop", *([name] if name else []), "--results", results, "--json")
    assert code == 0 and process.wait(10) == 0 and (tmp_path / "saved").exists()
    (one,) = json.loads(out)["stopped"]
    assert (one["name"], one["action"], one["pid"]) == ("sweep-1", "stopped", process.pid)
    assert [(row["id"], row["checkpoint"]) for row in one["rows"]] == [("fake/table1/cut", 3)] and "resumes at step 3" in err
    assert not list(lock.parent.glob("*asked*"))


def test_asked_twice_it_gets_one_signal(sweep, driver, tmp_path):
    results, lock = sweep
    process = driver(lock, linger=1.0)
    assert [one.action for one in stop(results, "sweep-1", timeout=0)] == ["stopping"]
    (again,) = stop(results, "sweep-1", timeout=20)
    assert (again.action, again.asked_before) == ("stopped", True)
    assert process.wait(10) == 0 and (tmp_path / "saved").exists(), "a second signal would have ended it before"


def test_now_is_the_second_signal(sweep, driver, tmp_path):
    results, lock = sweep
    process = driver(lock, linger=60.0)
    stop(results, "sweep-1", timeout=0)
    time.sleep(0.2)
    assert [one.action for one in stop(results, "sweep-1", now=True, timeout=20)] == ["stopped"]
    assert process.wait(10) != 0 and not (tmp_path / "saved").exists()


def test_exit_1_where_it_is_not_over_in_time(sweep, driver, cli):
    results, lock = sweep
    driver(lock, linger=60.0)
    code, _, err = cli("stop", "--results", results, "--timeout", "0.1")
    assert code == 1 and "still at it" in err


@pytest.mark.parametrize("name", [None, "sweep-1", "fake/table1/cut", "fake/table1/done"])
def test_what_does_not_run_is_no_error(sweep, cli, name):
    results, _ = sweep
    code, out, err = cli("stop", *([name] if name else []), "--results", results, "--json")
    assert code == 0 and ("not running" in err or "nothing runs" in err)
    assert [one["action"] for one in json.loads(out)["stopped"]] == (["not running"] if name else [])


def test_several_need_a_name_or_all(sweep, driver):
    results, lock = sweep
    put(results / "sweeps" / "other.json", json.dumps({"name": "other", "rows": []}))
    first, second = driver(lock), driver(results / "sweeps" / "other.lock")
    with pytest.raises(UserError, match=r"2 sweeps run.*--all"):
        stop(results, None)
    assert {one.name for one in stop(results, None, every=True, timeout=20)} == {"sweep-1", "other"}
    assert first.wait(10) == second.wait(10) == 0


def test_a_process_that_only_has_the_number_is_left_alone(sweep, dead):
    """The owner died and its number passed on: here, to this very process."""
    results, lock = sweep
    put(lock, "")
    put(lock.with_name("sweep-1.lock.json"), json.dumps(dead | {"pid": os.getpid()}))
    before = signal.signal(signal.SIGTERM, lambda number, frame: pytest.fail("signalled"))
    try:
        assert [one.action for one in stop(results, "sweep-1")] == ["not running"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_asked_while_decoding_the_row_is_finished_and_the_next_not_begun(monkeypatch):
    from orchestrator.engines import local

    class Row:
        def __init__(self, name: str) -> None:
            self.name = self.train_key = name

    done: list[str] = []

    def run_row(task, runtime, **options):
        os.kill(os.getpid(), signal.SIGTERM)  # nothing asks for it any more in this row
        done.append(task.name)

    monkeypatch.setattr(local, "run_row", run_row)
    with pytest.raises(KeyboardInterrupt):
        local.run([[Row("a")], [Row("b")]], None, "valid/nll")
    assert done == ["a"] and not interrupt.requested()
