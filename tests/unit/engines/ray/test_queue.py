"""The queue from which Train runs take jobs, without Ray."""

import math
import time
from pathlib import Path

from orchestrator.engines.ray.queue import ATTEMPTS, IDLE_SECONDS, WAIT, JobQueue
from orchestrator.sweeps.asha import Asha


def queue(stop: Path, jobs: int, asha: Asha | None = None) -> JobQueue:
    made = JobQueue()
    made.add([[{"id": str(number)}] for number in range(jobs)], asha, stop)
    return made


def test_slots_take_jobs_in_order_and_wait_for_those_of_the_next_sweep(tmp_path) -> None:
    jobs = queue(tmp_path / "stop", 3)
    assert [jobs.take("a", None), jobs.take("b", None), jobs.take("b", 1), jobs.take("a", 0)] == [0, 1, 2, WAIT]
    assert (jobs.left(), jobs.take("b", 2), jobs.left(), jobs.outcome(3)) == (1, WAIT, 0, ({}, None))
    jobs.add([[{"id": "3"}]], None, tmp_path / "stop")
    assert (jobs.take("a", None), jobs.take("b", None), jobs.outcome(1)) == (3, WAIT, ({0: ""}, None))
    jobs.close()
    assert jobs.take("b", None) is None


def test_after_a_stop_no_slot_takes_a_job(tmp_path) -> None:
    jobs = queue(tmp_path / "stop", 2)
    assert jobs.take("a", None) == 0
    (tmp_path / "stop").touch()
    assert jobs.take("a", 0) is None and jobs.outcome(2)[0] == {1: ""}


def test_an_idle_slot_gives_its_room_to_one_that_still_runs(tmp_path, monkeypatch) -> None:
    jobs = queue(tmp_path / "stop", 2)
    assert [jobs.take("a", None), jobs.take("b", None), jobs.take("a", 0)] == [0, 1, WAIT]
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + IDLE_SECONDS + 1)
    assert jobs.take("a", None) is None, "the slot b may wait for a node"
    assert [jobs.take("b", 1), jobs.take("b", None)] == [WAIT, WAIT], "the last slot is kept for the next sweep"


def test_a_job_of_a_drained_node_is_any_slots_and_no_attempt(tmp_path) -> None:
    jobs = queue(tmp_path / "stop", 1)
    for slot in "abcdefg":
        assert jobs.take(slot, None) == 0
        jobs.leave(slot, drained=True)
    assert (jobs.left(), jobs.attempts[0]) == (1, 0)
    assert jobs.take("h", None) == 0
    (tmp_path / "stop").touch()
    jobs.leave("h")
    assert not jobs.left() and jobs.outcome(1)[0] == {0: ""}


def test_workers_that_died_go_on_with_their_job_while_attempts_are_left(tmp_path) -> None:
    jobs = queue(tmp_path / "stop", 3)
    assert [jobs.take("a", None) for _ in range(ATTEMPTS)] == [0] * ATTEMPTS
    jobs.explain(0, "ValueError: the cause")
    jobs.explain(0, "RuntimeError: Connection closed by peer")
    assert jobs.take("a", None) == 1, "a row that fails does not end the others"
    assert jobs.outcome(3)[0] == {0: "ValueError: the cause", 1: "", 2: ""}
    assert (jobs.left(), jobs.left(["b"]), jobs.left(["a"])) == (2, 2, 1), "a slot that failed does not go on with its job"
    assert [jobs.take("a", 1), jobs.take("a", 2)] == [2, WAIT] and set(jobs.outcome(3)[0]) == {0} and not jobs.left()


def test_decisions_are_those_of_asha(tmp_path) -> None:
    asha = Asha([10], 2.0, "valid/nll", set())
    jobs = queue(tmp_path / "stop", 1, asha)
    rungs = [{"run": run, "rung": 10, "valid/nll": value} for run, value in (("a:1", 2.0), ("b:1", 3.0), ("c:1", math.nan), ("d:1", 1.0))]
    assert [jobs.decide(rung) for rung in rungs] == [True, False, False, True]
    assert jobs.outcome(1)[1] is asha and asha.stopped() == {"b:1": 10, "c:1": 10}
    assert queue(tmp_path / "stop", 1).decide({"run": "a:1", "rung": 10})


def test_an_end_after_new_updates_is_no_attempt(tmp_path) -> None:
    """Machines that end without a notice: a row on many of them would fail although it gets further each time."""
    jobs = queue(tmp_path / "stop", 1)
    for step in range(10, 100, 10):
        assert jobs.take("a", None) == 0
        jobs.reached(0, step)
        jobs.reached(0, step - 5)
    assert jobs.attempts[0] == 1
    assert [jobs.take("a", None) for _ in range(ATTEMPTS)] == [0] * (ATTEMPTS - 1) + [WAIT]


def test_another_number_of_workers_is_a_change_of_the_cluster_and_no_attempt(tmp_path) -> None:
    jobs = queue(tmp_path / "stop", 1)
    for workers in (4, 2, 3, 4, 2, 8):
        assert jobs.take("a", None, workers) == 0
    assert jobs.attempts[0] == 1
