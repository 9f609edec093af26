"""Ray's jobs API with errors of one line, one job for each sweep, and its log until it ends."""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient

from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

for _name in ("ray.dashboard.modules.job.sdk", "ray.dashboard.modules.dashboard_sdk"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # importing them sets INFO

PASSING = (requests.exceptions.ConnectionError, requests.exceptions.Timeout, requests.exceptions.ChunkedEncodingError)  # last: cut answers
TRIES, PATIENCE = 90, 120.0
"""Attempts to start a job, two seconds apart; seconds without an answer, after which its log is no longer followed."""

UNKNOWN = "the head does not know the job; if it was started anew, the same `nmt-ablate submit` resumes from the last checkpoints"


@contextmanager
def user_errors(address: str, token: str) -> Iterator[None]:
    """Context: errors of the network and of the cluster become UserError with one line, without the token."""
    try:
        yield
    except AuthenticationError:
        problem = "the token is not the cluster's: set RAY_AUTH_TOKEN_PATH to the file that holds it"
    except (*PASSING, ConnectionError):
        problem = "nothing answers there; expected the dashboard of a cluster's head (is the tunnel open?)"
    except (requests.exceptions.RequestException, KeyError, ValueError) as error:
        problem = f"this is no Ray dashboard ({type(error).__name__})"
    except RuntimeError as error:
        text = " ".join(str(error).replace(token, "***").split())
        problem = UNKNOWN if re.search(r"Job \S+ does not exist", text) else f"Ray refused: {shown(text[-300:], 300)}"
    else:
        return
    raise UserError(f"{address}: {problem}") from None


def connect(address: str, token: str) -> JobSubmissionClient:
    """The client of the cluster whose dashboard is at `address` (http://HOST:PORT). Call it within `user_errors`."""
    os.environ["RAY_API_SERVER_ADDRESS"] = address  # it precedes the argument
    return JobSubmissionClient(address, headers={"Authorization": f"Bearer {token}"})


def last_attempt(client: JobSubmissionClient, base: str) -> tuple[JobDetails | None, str]:
    """The last job of a sweep (`base`, `base`-2, ...) and the name of the next."""
    pattern = re.compile(re.escape(base) + r"(?:-([1-9][0-9]{0,5}))?")
    attempts = {int(match[1] or 1): job for job in client.list_jobs() if (match := pattern.fullmatch(job.submission_id or ""))}
    number = max(attempts, default=0)
    return attempts.get(number), base if number == 0 else f"{base}-{number + 1}"


def start(client: Any, **job: Any) -> None:
    """Submits a job that may exist already; waits for the job agent of a new head. Arguments: of `submit_job`."""
    for left in reversed(range(TRIES)):
        try:
            client.submit_job(**job)
            return
        except RuntimeError as error:
            if "already exists" in str(error):  # another submission came first
                return
            if "No available agent" not in str(error) or not left:
                raise
        time.sleep(2.0)


def follow(client: Any, id: str, write: Callable[[str], None], *, pause: float = 1.0) -> JobDetails:
    """Writes the whole log, each character once, and returns the job when it has ended."""
    written, answered = 0, time.monotonic()
    while True:
        try:
            job: JobDetails = client.get_job_info(id)
            log = client.get_job_logs(id)
        except (*PASSING, RuntimeError) as error:
            passing = not isinstance(error, RuntimeError) or "status code 50" in str(error)
            if not passing or time.monotonic() - answered > PATIENCE:
                raise
            time.sleep(pause)
            continue
        answered = time.monotonic()
        write(log[written:])
        written = len(log)
        if job.status.is_terminal():
            return job
        time.sleep(pause * (1 + written / 100_000))  # the longer the log, which comes as a whole, the more rarely


def exit_code(job: JobDetails) -> int:
    """The exit code of the job; 130 if it was stopped, 128 plus the signal that killed it, 1 if it never ran."""
    code = 130 if job.status == JobStatus.STOPPED else job.driver_exit_code
    return 1 if code is None else code if code >= 0 else 128 - code
