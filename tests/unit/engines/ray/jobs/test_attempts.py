"""One sweep, one job, with a cluster that is a list; its log and its exit code."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ray.job_submission import JobDetails, JobType
from requests.exceptions import ChunkedEncodingError

from orchestrator.cli.commands import submit
from orchestrator.engines.ray.jobs.api import exit_code, follow, last_attempt
from orchestrator.errors import CommandError

BASE = "sweep-0123456789abcdef"


def job(id: str = BASE, status: str = "RUNNING", code: int | None = None) -> JobDetails:
    return JobDetails(type=JobType.SUBMISSION, submission_id=id, status=status, entrypoint="", driver_exit_code=code, start_time=1)


@pytest.mark.parametrize(
    ("known", "last", "following"),
    [
        ([], None, BASE),
        ([job()], BASE, f"{BASE}-2"),
        ([job(status="FAILED"), job(f"{BASE}-2", "STOPPED")], f"{BASE}-2", f"{BASE}-3"),
        ([job("sweep-other"), job(f"{BASE}-x"), job(f"{BASE}0")], None, BASE),
    ],
)
def test_the_last_attempt_at_a_sweep_and_the_name_of_the_next(known, last, following):
    found, name = last_attempt(SimpleNamespace(list_jobs=lambda: known), BASE)
    assert (None if found is None else found.submission_id, name) == (last, following)


def test_each_character_once():
    ended = job(status="FAILED", code=3)
    logs = Mock(side_effect=["a\nb", ChunkedEncodingError(), RuntimeError("failed with status code 503"), "a\nbc\n", "a\nbc\nd"])
    cluster = SimpleNamespace(get_job_info=Mock(side_effect=[job()] * 4 + [ended]), get_job_logs=logs)
    written: list[str] = []
    assert follow(cluster, BASE, written.append, pause=0) == ended
    assert "".join(written) == "a\nbc\nd"


@pytest.mark.parametrize(
    ("status", "code", "mine"),
    [
        ("SUCCEEDED", 0, 0), ("FAILED", 2, 2), ("FAILED", 3, 3), ("FAILED", -9, 137), ("FAILED", None, 1), ("STOPPED", None, 130),
        ("STOPPED", 1, 130),
    ],
)  # fmt: skip
def test_the_job_s_own_exit_code(status, code, mine):
    assert exit_code(job(status=status, code=code)) == mine


@pytest.mark.parametrize(
    ("last", "again", "id", "new"),
    [
        (job(), True, BASE, False),
        (job(status="SUCCEEDED", code=0), False, BASE, False),
        (job(status="SUCCEEDED", code=0), True, f"{BASE}-2", True),
        (job(status="FAILED", code=1), False, f"{BASE}-2", True),
    ],
)
def test_which_job_stands_for_a_sweep(last, again, id, new, monkeypatch, capsys):
    started: list[str] = []
    client = SimpleNamespace(list_jobs=lambda: [last], submit_job=lambda *, submission_id, **more: started.append(submission_id))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "x" * 32)
    monkeypatch.setattr(submit, "make_job", lambda *_: submit.SweepJob(BASE, "n", 1, "c", {}, frozenset()))
    monkeypatch.setattr(submit.upload, "collect", lambda *_: SimpleNamespace(files=(), bytes=0))
    monkeypatch.setattr(submit.api, "connect", lambda *_: client)
    submit.submit(print, [], {}, None, wait=False, again=again, dry_run=False)
    assert capsys.readouterr().out == f"{id}\n" and started == ([id] if new else [])


LOST = RuntimeError("404: Job sweep-1 does not exist.")


@pytest.mark.parametrize(("error", "known", "code"), [(LOST, True, 5), (ConnectionError(), True, 5), (LOST, False, 2)])
def test_a_lost_head_and_an_unknown_job(error, known, code, monkeypatch, capsys):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "x" * 32)
    monkeypatch.setattr(submit.api, "connect", lambda *_: SimpleNamespace(get_job_info=Mock(side_effect=error)))
    monkeypatch.setattr(submit.api, "PATIENCE", 0.0)
    with pytest.raises(CommandError) as caught:
        submit.follow_job(None, BASE, known=known)
    said = capsys.readouterr().err
    assert caught.value.code == code and ("following" in said) == known
    assert ("the same `nmt-ablate submit`" in str(caught.value), "--attach" in said) == (error is LOST, error is not LOST)
