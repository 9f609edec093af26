"""Device-hours of a sweep: how they are added up, and when the cap asks and ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.sweeps import budget
from orchestrator.sweeps.budget import RESERVE, Budget, budgeted_sweeps, check
from orchestrator.sweeps.options import ExecutionOptions

SWEEP = "demo-cap"


def process(results: Path, name: str, seconds: float, devices: int = 0, updated: float = 1000.0, *, alive: bool = False) -> None:
    record = {"device_seconds": seconds, "devices": devices, "updated": updated, "open": alive}
    place = budget.usage_folder(results, SWEEP)
    place.mkdir(parents=True, exist_ok=True)
    atomic.write_json(place / f"{name}.json", record)


def cap(results: Path, hours: float, margin: float = 1.0, **calls: object) -> Budget:
    told = {"save": lambda: None, "stop": lambda: None, "reset": lambda: None} | calls
    return Budget(results, [SWEEP, "demo-cap-retrain"], hours, "core-hours", margin=margin, poll=0.01, **told)  # type: ignore[arg-type]


def test_every_process_counts_and_a_killed_one_as_long_as_it_may_have_lived(tmp_path: Path) -> None:
    assert budget.used_seconds(tmp_path, SWEEP) == 0
    process(tmp_path, "ended", 100.0)
    process(tmp_path, "killed", 50.0, devices=3, updated=1000.0, alive=True)
    assert budget.used_seconds(tmp_path, SWEEP, now=1001.0) == 153.0
    assert budget.used_seconds(tmp_path, SWEEP, now=9999.0) == 150.0 + 3 * 2 * budget.HEARTBEAT
    assert budget.used_seconds(tmp_path, SWEEP, now=900.0) == 150.0, "a clock that is behind takes nothing back"
    assert (budget.active_devices(tmp_path, SWEEP, now=1001.0), budget.active_devices(tmp_path, SWEEP, now=9999.0)) == (3, 0)
    (budget.usage_folder(tmp_path, SWEEP) / "torn.json").write_text('{"device_seconds": ')
    assert budget.used_seconds(tmp_path, SWEEP, now=900.0) == 150.0


def test_a_killed_writers_temporary_file_goes_and_a_live_ones_stays(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    folder = budget.usage_folder(tmp_path, SWEEP)
    folder.mkdir(parents=True)
    killed, live = (folder / f".{socket.gethostname()}-{pid}-1.json.{pid}-0a.tmp" for pid in (ended.pid, os.getpid()))
    elsewhere = folder / f".another-host-{ended.pid}-1.json.{ended.pid}-0a.tmp"
    for path in (killed, live, elsewhere):
        path.touch()
    with budget.record_usage(tmp_path, SWEEP, 1):
        assert set(folder.glob("*.tmp")) == {live, elsewhere}


def test_runs_that_go_on_at_once_in_a_process_count_once(tmp_path: Path) -> None:
    started = time.monotonic()
    with budget.record_usage(tmp_path, SWEEP, 2), budget.record_usage(tmp_path, SWEEP, 1), budget.record_usage(tmp_path, None, 9):
        assert budget.active_devices(tmp_path, SWEEP) == 2
        threading.Event().wait(0.05)
    most = 2 * (time.monotonic() - started)
    found = budget.used_seconds(tmp_path, SWEEP)
    assert 2 * 0.05 - 0.01 <= found <= most + 0.01
    with budget.record_usage(tmp_path, SWEEP, 1):
        pass
    assert found <= budget.used_seconds(tmp_path, SWEEP) < found + 5
    (record,) = (json.loads(path.read_text()) for path in budget.usage_folder(tmp_path, SWEEP).glob("*.json"))
    assert not record["open"] and budget.active_devices(tmp_path, SWEEP) == 0


def test_the_cap_asks_before_it_ends_and_reserves_for_every_device(tmp_path: Path) -> None:
    process(tmp_path, "one", 0.0, devices=4, updated=time.time() + 1000, alive=True)
    one = cap(tmp_path, 1.0)
    for used, step in ((3600 - 4 * RESERVE - 1, "continue"), (3600 - 4 * RESERVE + 1, "save"), (3597, "stop"), (9999, "stop")):
        process(tmp_path, "before", used)
        assert one.action() == step, used
    small = cap(tmp_path, 0.01)
    for used, step in ((30.0, "continue"), (33.0, "save"), (34.9, "stop")):
        process(tmp_path, "before", used)
        assert small.action() == step, used


def test_a_search_and_what_it_retrains_have_one_cap(tmp_path: Path) -> None:
    for name in ("a/b", "a/b:retrain"):
        assert budgeted_sweeps(ExecutionOptions(name=name, results=tmp_path)) == ["a-b", "a-b-retrain"]
    one = cap(tmp_path, 1.0)
    process(tmp_path, "search", 1800.0)
    with budget.record_usage(tmp_path, "demo-cap-retrain", 1):
        assert 0.5 < one.used_hours() < 0.6


def test_hours_in_a_bucket_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.ledger.object_store.url", lambda results: "s3://lab/ledger")
    check(None, tmp_path)
    with pytest.raises(UserError, match="in a bucket"):
        check(1.0, tmp_path)


def test_it_tells_its_runs_and_forgets(tmp_path: Path) -> None:
    told: list[str] = []
    ended = threading.Event()
    one = cap(tmp_path, 1.0, save=lambda: told.append("save"), stop=ended.set, reset=lambda: told.append("reset"))
    assert not one.exhausted()
    process(tmp_path, "before", 3600.0)
    assert one.exhausted() and "stopped at the cap: 1 of 1 core-hours used" in one.message()
    with one:
        assert ended.wait(20)
    assert one.reached and told[0] == "save" and told[-1] == "reset" and told.count("reset") == 1


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "inf"])
def test_a_cap_is_a_number_above_0(hours: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "quickstart/fusion", "--max-core-hours", hours]) == 2
    assert "expected a number above 0" in capsys.readouterr().err
