"""`--jobs N`: rows side by side in worker processes have the bits of one process; one that fails or is killed ends alone."""

import json

import pytest

from orchestrator.engines import pool
from orchestrator.ledger.keys import Keys
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.task import Task
from tests.unit.engines import toy_worker
from tests.unit.training.support import SPEC

ROWS = """\
  a: {train: {max_steps: 2}}
  b: {train: {max_steps: 2}, model: {d_ff: 48}}
  c: {model: {d_ff: 40}}
  d: {model: {d_ff: 56}, init_from: c}
  e: {model: {d_ff: 64}}
"""


@pytest.fixture
def sweep(cli, spec, tmp_path):
    path = spec(ROWS)

    def run(results: str, jobs: str):
        places = ["--results", tmp_path / results, "--cache-dir", tmp_path / "cache", "--no-tracking"]
        code, out, err = cli("sweep", path, "--engine", "local", "--jobs", jobs, "--json", *places)
        return code, {record["id"].rpartition("/")[2]: record for record in map(json.loads, out.splitlines())}, err

    return run


@pytest.mark.slow
def test_rows_side_by_side(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_FAULT", "step@3:raise,step@4:kill")  # each in one of c and e, whichever comes there first
    monkeypatch.setenv("NMT_FAULT_ONCE", str(tmp_path / "once"))
    code, found, err = sweep("several", "2")
    failed = {name for name, record in found.items() if record["status"] == "failed"}
    assert code == 1 and failed == {"c", "e", "d"}, err
    reasons = sorted(found[name]["reason"] for name in ("c", "e"))
    assert reasons[0].startswith("InjectedFault: ") and "killed by SIGKILL" in reasons[1]
    assert "its parent demo/small/c:1 failed" in found["d"]["reason"]

    monkeypatch.delenv("NMT_FAULT")
    code, found, err = sweep("several", "2")
    assert code == 0, err
    code, alone, err = sweep("one", "1")
    assert code == 0, err
    same = ("status", "weights_sha256", "bleu", "steps")
    assert {name: [r[k] for k in same] for name, r in found.items()} == {name: [r[k] for k in same] for name, r in alone.items()}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs jobs, each given as the ids of its tasks, in toy processes. Returns the failures, and the tasks in the order of their starts
    with how many others ran at that time."""
    monkeypatch.setattr(pool, "main", toy_worker.main)

    def run(*jobs: str, size: int, asha: Asha | None = None):
        tasks = [[Task(id, 1, SPEC, Keys("0" * 64, None, None), str(tmp_path)) for id in job.split()] for job in jobs]
        try:
            failures = pool.run(tasks, size, asha, tmp_path / "stop")
        except KeyboardInterrupt:
            failures = None
        assert not pool.SERVER.active_children()
        return failures, [(id, int(others)) for id, others in map(str.split, (tmp_path / "ran").read_text().splitlines())]

    return run


def test_tasks_of_a_job_run_in_order_and_a_failure_ends_none_of_them(run):
    failures, ran = run("a fails b", "c", size=1)
    assert failures == {"fails:1": "no luck"} and ran == [("a", 0), ("fails", 0), ("b", 0), ("c", 0)]


def test_a_killed_process_fails_its_task_alone(run):
    failures, ran = run("killed a", "b", size=2)
    assert list(failures) == ["killed:1"] and "killed by SIGKILL" in failures["killed:1"]
    assert {id for id, _ in ran} == {"killed", "a", "b"}


def test_no_more_processes_than_asked(run):
    _, ran = run(*["waits"] * 5, size=2)
    assert max(others for _, others in ran) == 1


def test_the_scheduler_decides_here(run, tmp_path):
    asha = Asha([2], 2.0, "loss", set())
    failures, _ = run("rung1.0", "rung3.0", "rung0.5", size=1, asha=asha)
    assert failures == {"rung3.0:1": "not promoted"} and list(asha.stopped()) == ["rung3.0:1"]
    asha = Asha([2], 2.0, "loss", set(), tmp_path / "ran" / "asha.json")  # below a file: cannot be written
    failures, ran = run("rung1.0 next", size=1, asha=asha)
    assert failures["rung1.0:1"].startswith("FileExistsError: ") and ran[-1][0] == "next" and asha.records == {2: []}


def test_a_stop_lets_the_running_tasks_end_and_starts_no_other(run, tmp_path):
    failures, ran = run("stops next", "waits", "later", size=2)
    assert failures is None and {id for id, _ in ran} <= {"stops", "waits"} and not (tmp_path / "stop").exists()
