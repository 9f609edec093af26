"""One sweep, one job, with a cluster that is a dictionary; and logs through a connection that breaks."""

import itertools
from types import SimpleNamespace

import pytest
import typer
from ray.job_submission import JobDetails, JobType

from orchestrator.cli.commands import submit
from orchestrator.engines.ray.jobs.api import JobExists, exit_code, follow, join
from orchestrator.errors import UserError

BASE = "sweep-0123456789abcdef"


def job(id: str = BASE, status: str = "RUNNING", code: int | None = None) -> JobDetails:
    return JobDetails(type=JobType.SUBMISSION, submission_id=id, status=status, entrypoint="", driver_exit_code=code, start_time=1)


class Fake:
    """states: answers of `job`, the last for ever; None: out of reach. logs: of each answer to `log`."""

    def __init__(self, *known: JobDetails, logs=(), states=()) -> None:
        self.known = {str(one.submission_id): one for one in known}
        self.texts, self.states = iter(logs), itertools.chain(states, itertools.repeat(states[-1] if states else None))
        self.submitted: list[str] = []

    def jobs(self) -> list[JobDetails]:
        return list(self.known.values())

    def job(self, id: str) -> JobDetails | None:
        if id in self.known:
            return self.known[id]
        state = next(self.states)
        if state is None:
            raise UserError("out of reach")
        return state

    def submit(self, id: str) -> None:
        self.submitted.append(id)

    def log(self, id: str) -> str:
        if (text := next(self.texts, None)) is None:
            raise UserError("out of reach")
        return text


@pytest.mark.parametrize(
    ("known", "again", "id", "new"),
    [
        ([], False, BASE, True),
        ([job()], True, BASE, False),
        ([job(status="PENDING")], False, BASE, False),
        ([job(status="SUCCEEDED", code=0)], False, BASE, False),
        ([job(status="SUCCEEDED", code=0)], True, f"{BASE}-2", True),
        ([job(status="FAILED", code=1)], False, f"{BASE}-2", True),
        ([job(status="FAILED"), job(f"{BASE}-2", "STOPPED")], False, f"{BASE}-3", True),
        ([job(status="FAILED"), job(f"{BASE}-2")], False, f"{BASE}-2", False),
        ([job("sweep-other"), job(f"{BASE}-x"), job(f"{BASE}0")], False, BASE, True),
    ],
)
def test_which_job_stands_for_a_sweep(known, again, id, new):
    cluster = Fake(*known)
    assert join(cluster, BASE, cluster.submit, again=again) == (id, new)
    assert cluster.submitted == ([id] if new else [])


def test_who_comes_second_joins_the_first():
    cluster = Fake(job(status="FAILED"))

    def beaten(id: str) -> None:
        cluster.known[id] = job(id)
        raise JobExists(id)

    assert join(cluster, BASE, beaten) == join(cluster, BASE, cluster.submit) == (f"{BASE}-2", False) and not cluster.submitted


def test_each_character_once_through_broken_connections():
    ended = job(status="FAILED", code=3)
    cluster = Fake(logs=["a\nb", "a\nbc\n", None, "a\nbc\nd"], states=[job(), None, job(), ended])
    written: list[str] = []
    assert follow(cluster, BASE, written.append, pause=0) == ended
    assert "".join(written) == "a\nbc\nd"


def test_a_cluster_that_stays_away_ends_it():
    with pytest.raises(UserError, match="out of reach for 0 s; the job may go on"):
        follow(Fake(states=[job()]), BASE, print, patience=0, pause=0)
    ended = job(status="FAILED")
    assert follow(Fake(states=[ended]), BASE, print, patience=0, pause=0) == ended, "its log was lost with its node"


@pytest.mark.parametrize(
    ("status", "code", "mine"),
    [
        ("SUCCEEDED", 0, 0), ("FAILED", 2, 2), ("FAILED", 3, 3), ("FAILED", -9, 137), ("FAILED", None, 1), ("STOPPED", None, 130),
        ("STOPPED", 1, 130),
    ],
)  # fmt: skip
def test_the_job_s_own_exit_code(status, code, mine):
    assert exit_code(job(status=status, code=code)) == mine


@pytest.mark.parametrize(("code", "told"), [(None, True), (-9, True), (1, False)])
def test_a_job_whose_driver_was_killed_tells_how_to_resume_it(code, told, monkeypatch, capsys):
    monkeypatch.setattr(submit, "follow", lambda *_: job(status="FAILED", code=code))
    with pytest.raises(typer.Exit):
        submit.follow_job(SimpleNamespace(), BASE)
    assert ("resumes it from its last checkpoints" in capsys.readouterr().err) is told
