"""Device-hours of a sweep: how they are added up, and when the cap asks and ends."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator import interrupt
from orchestrator.cli.main import run
from orchestrator.errors import UserError
from orchestrator.files.documents import write_document
from orchestrator.ledger.run_lock import RunLock
from orchestrator.sweeps import budget
from orchestrator.sweeps.budget import RESERVE, Budget, BudgetExceeded, budgeted, check
from orchestrator.sweeps.options import ExecutionOptions


def use(results: Path, sweep: str, seconds: float) -> None:
    write_document(budget.usage_file(results, sweep), {"device_seconds": seconds}, budget.KEY)


def options(results: Path, hours: float | None, **changes) -> ExecutionOptions:
    return ExecutionOptions(results=results, name="demo/cap", max_hours=hours, **changes)


def task(results: Path, name: str, workers: int = 1, threads: int = 1):
    (results / name).mkdir(parents=True, exist_ok=True)
    return SimpleNamespace(run_dir=results / name, workers=workers, spec=SimpleNamespace(train=SimpleNamespace(threads=threads)))


@pytest.mark.parametrize(
    ("hours", "devices", "left", "action"),
    [
        (10, 5, 301, "continue"), (10, 5, 299, "save"), (10, 5, 26, "save"), (10, 5, 24, "stop"), (10, 5, -5, "stop"),
        (1, 0, RESERVE + 1, "continue"), (1, 0, RESERVE - 1, "save"), (0.01, 1, 5.5, "continue"), (0.01, 1, 5.3, "save"),
        (0.01, 1, 3.5, "stop"),
    ],
)  # fmt: skip
def test_the_cap_asks_before_it_ends(tmp_path, hours: float, devices: int, left: float, action: str) -> None:
    """The hours are those of a search and of what it tunes together."""
    use(tmp_path, "demo-cap", 3600 * hours / 2 - left)
    use(tmp_path, "demo-cap-tuned", 3600 * hours / 2)
    for name in ("demo/cap", "demo/cap:tuned"):
        own = Budget(ExecutionOptions(results=tmp_path, name=name, max_hours=hours, jobs="2"), [])
        assert own.action(devices) == action


def test_runs_count_while_they_are_held_with_all_their_devices(tmp_path) -> None:
    one, two, stale = task(tmp_path, "one", 2, 3), task(tmp_path, "two"), task(tmp_path, "stale")
    with RunLock(stale.run_dir / "lock"), RunLock(one.run_dir / "lock"):
        lost = json.loads((stale.run_dir / "lock.json").read_text()) | {"host": "a-machine-that-was-lost"}
    (stale.run_dir / "lock.json").write_text(json.dumps(lost | {"held": True}))
    assert Budget(options(tmp_path, None), [one]).devices == {one.run_dir / "lock": 3}, "the local engine has one worker"
    both = [one, task(tmp_path, "one", 8)]
    assert Budget(options(tmp_path, None, engine="ray"), both).devices == {one.run_dir / "lock": 6}, "one training, as the first row has it"
    with budgeted(options(tmp_path, None, engine="ray"), [one, two, stale]):
        started = time.monotonic()
        with RunLock(one.run_dir / "lock"), RunLock(two.run_dir / "lock"):
            time.sleep(0.6)
        most = 7 * (time.monotonic() - started + budget.POLL)
    assert 7 * 0.3 < budget.used_seconds(tmp_path, "demo-cap") <= most
    before = budget.used_seconds(tmp_path, "demo-cap")
    with budgeted(options(tmp_path, 9.0), [one, two]):
        time.sleep(0.3)
    assert budget.used_seconds(tmp_path, "demo-cap") == before


@pytest.mark.parametrize("text", ["{", "[]", '{"device_seconds": 1.0}', '{"device_seconds": 1.0, "digest": "%s"}' % ("0" * 64)])
def test_hours_that_were_changed_or_have_no_digest_are_not_counted(tmp_path, text: str, capsys) -> None:
    path = budget.usage_file(tmp_path, "demo-cap")
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(UserError, match=r"demo-cap\.hours: its digest is missing or not the one of its content; expected"):
        Budget(options(tmp_path, 1.0), [])
    assert Budget(options(tmp_path, None), []).own == 0.0
    assert capsys.readouterr().err.count("demo-cap.hours: its digest") == 1


def test_it_tells_its_runs_and_forgets(tmp_path, monkeypatch) -> None:
    tiny, one = options(tmp_path, 1e-5), task(tmp_path, "a")
    told = r"stopped at the cap: .* core-hours used; .* larger --max-core-hours resumes"
    with pytest.raises(BudgetExceeded, match=told), budgeted(tiny, [one]), RunLock(one.run_dir / "lock"):
        time.sleep(20)
    assert not interrupt.requested()
    with pytest.raises(BudgetExceeded), budgeted(tiny, []):
        raise AssertionError("started with nothing left")
    monkeypatch.setattr(interrupt, "stop_file", lambda *_: tmp_path / "absent" / "stop")  # it cannot be written, as on a full disk
    tiny, two = ExecutionOptions(results=tmp_path, name="other", max_hours=1e-5, jobs="2"), task(tmp_path, "b")
    with pytest.raises(BudgetExceeded), budgeted(tiny, [two]), RunLock(two.run_dir / "lock"):
        time.sleep(20)


def test_hours_in_a_bucket_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("orchestrator.ledger.object_store.url", lambda results: "s3://lab/ledger")
    check(None, tmp_path)
    with pytest.raises(UserError, match="in a bucket"):
        check(1.0, tmp_path)


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "inf"])
def test_a_cap_is_a_number_above_0(hours: str, capsys) -> None:
    assert run(["sweep", "quickstart/fusion", "--max-core-hours", hours]) == 2
    assert "expected a number above 0" in capsys.readouterr().err
