"""Ray's jobs API with errors of one line, one job for each sweep, and its log until it ends."""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient

from orchestrator.engines.ray.address import is_listening
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

AGENT_TIMEOUT = 180.0
"""Seconds for which a submission is retried while the job agent of a new head is starting."""
PATIENCE = 120.0
"""Seconds without an answer after which following a job gives up; the job continues."""
INTERRUPTED = 130

for _name in ("ray.dashboard.modules.job.sdk", "ray.dashboard.modules.dashboard_sdk"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # importing them sets INFO


class JobExists(Exception):
    """A job of this id exists."""


def is_active(job: JobDetails) -> bool:
    return job.status in (JobStatus.PENDING, JobStatus.RUNNING)


class Client:
    """The cluster at `address` (http://HOST:PORT). Every method raises UserError if it is unreachable or refuses the token."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address, token
        os.environ["RAY_API_SERVER_ADDRESS"] = address  # it precedes the argument
        parts = urlsplit(address)
        with self._user_errors():
            if not is_listening(f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"):
                raise ConnectionError
            self._sdk = JobSubmissionClient(address, headers={"Authorization": f"Bearer {token}"})

    def submit(self, id: str, entrypoint: str, package: Path, env: dict[str, str], metadata: dict[str, str]) -> None:
        """Submits a job. package: a folder that Ray packs, its working directory. JobExists if a job of this id exists."""
        environment: dict[str, Any] = {"working_dir": str(package)} | ({"env_vars": env} if env else {})
        deadline = time.monotonic() + AGENT_TIMEOUT
        with self._user_errors():
            while True:
                try:
                    self._sdk.submit_job(entrypoint=entrypoint, submission_id=id, runtime_env=environment, metadata=metadata)
                    return
                except RuntimeError as error:
                    if "already exists" in str(error):
                        raise JobExists(id) from None
                    if "No available agent" not in str(error) or time.monotonic() >= deadline:
                        raise
                time.sleep(2.0)

    def job(self, id: str) -> JobDetails | None:
        """The job of this id; None if there is none."""
        with self._user_errors():
            try:
                return self._sdk.get_job_info(id)
            except RuntimeError as error:
                if "status code 404" in str(error):
                    return None
                raise

    def jobs(self) -> list[JobDetails]:
        """Submitted jobs."""
        with self._user_errors():
            return [job for job in self._sdk.list_jobs() if job.submission_id]

    def log(self, id: str) -> str:
        """The whole log so far."""
        with self._user_errors():
            return self._sdk.get_job_logs(id)

    @contextmanager
    def _user_errors(self) -> Iterator[None]:
        """Turns errors of the network and of the cluster into UserError with one line, without the token."""
        try:
            yield
        except AuthenticationError as error:
            wrong = "Authentication failed" in str(error)
            problem = "the token is not the cluster's" if wrong else "the cluster needs a token and got none"
            problem = f"{problem}: set RAY_AUTH_TOKEN_PATH to the file that holds it"
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout, ConnectionError):
            problem = "nothing answers there; expected the dashboard of a cluster's head (is the tunnel open?)"
        except (requests.exceptions.RequestException, KeyError, ValueError) as error:
            problem = f"this is no Ray dashboard ({type(error).__name__})"
        except RuntimeError as error:
            text = shown(" ".join(str(error).replace(self._token, "***").split())[-300:], 300)
            problem = "this is no Ray dashboard (404)" if "404" in str(error) else f"Ray refused: {text}"
        else:
            return
        raise UserError(f"{self.address}: {problem}") from None


def join(client: Client, base: str, submit: Callable[[str], None], *, again: bool = False) -> tuple[str, bool]:
    """Joins the sweep's last job if it is active or has succeeded, else starts a new attempt (`base`, `base`-2, ...) by `submit`.

    again: start a new attempt even after one that has succeeded. Returns the job's id and whether this call started it.
    """
    pattern = re.compile(re.escape(base) + r"(?:-([1-9][0-9]{0,5}))?")
    attempts = [(int(match[1] or 1), job) for job in client.jobs() if (match := pattern.fullmatch(job.submission_id or ""))]
    number, last = max(attempts, key=lambda pair: pair[0], default=(0, None))
    if last is not None and (is_active(last) or (last.status == JobStatus.SUCCEEDED and not again)):
        return str(last.submission_id), False
    id = base if number == 0 else f"{base}-{number + 1}"
    try:
        submit(id)
    except JobExists:  # another submission came first
        return id, False
    return id, True


def follow(client: Client, id: str, write: Callable[[str], None], *, patience: float = PATIENCE, pause: float = 1.0) -> JobDetails:
    """Writes the whole log, each character once, and returns the job when it has ended.

    UserError if it does not exist, or if the cluster is unreachable for `patience` seconds. KeyboardInterrupt is propagated.
    """
    written, answered, job = 0, time.monotonic(), None
    while True:
        try:
            job = client.job(id)
            log = "" if job is None else client.log(id)
        except UserError:
            if time.monotonic() - answered >= patience:
                if job is not None and not is_active(job):  # its log was lost with its node
                    return job
                raise UserError(f"{id}: the cluster has been out of reach for {patience:.0f} s; the job may go on without us") from None
        else:
            if job is None:
                raise UserError(f"{id}: the cluster has no such job")
            write(log[written:])
            written, answered = len(log), time.monotonic()
            if not is_active(job):
                return job
        time.sleep(pause * (1 + written / 100_000))  # the longer the log, which comes as a whole, the more rarely


def exit_code(job: JobDetails) -> int:
    """The exit code of the job; 130 if it was stopped, 128 plus the signal that killed it, 1 if it never ran."""
    code = job.driver_exit_code
    if code is not None and job.status != JobStatus.STOPPED:
        return code if code >= 0 else 128 - code
    return {JobStatus.SUCCEEDED: 0, JobStatus.STOPPED: INTERRUPTED}.get(job.status, 1)
