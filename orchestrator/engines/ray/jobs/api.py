"""A client of Ray's jobs API whose errors are one line; and one job for each sweep."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
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
        """Submitted jobs, oldest first."""
        with self._user_errors():
            return sorted((job for job in self._sdk.list_jobs() if job.submission_id), key=lambda job: job.start_time or 0)

    def logs(self, id: str) -> AsyncIterator[str]:
        """Yields the log from its first line until the job has ended. Raises any exception if the connection is lost."""
        return self._sdk.tail_job_logs(id)

    @contextmanager
    def _user_errors(self) -> Iterator[None]:
        """Turns errors of the network and of the cluster into UserError with one line, without the token."""
        try:
            yield
        except AuthenticationError as error:
            wrong = "Authentication failed" in str(error)
            problem = "the token is not the cluster's" if wrong else "the cluster needs a token and got none"
            raise UserError(f"{self.address}: {problem}: set RAY_AUTH_TOKEN_PATH to the file that holds it") from None
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout, ConnectionError):
            raise UserError(
                f"{self.address}: nothing answers there; expected the dashboard of a cluster's head (is the tunnel open?)"
            ) from None
        except (requests.exceptions.RequestException, KeyError, ValueError) as error:
            raise UserError(f"{self.address}: this is no Ray dashboard ({type(error).__name__})") from None
        except RuntimeError as error:
            if "404" in str(error):
                raise UserError(f"{self.address}: this is no Ray dashboard (404)") from None
            text = shown(" ".join(str(error).replace(self._token, "***").split())[-300:], 300)
            raise UserError(f"{self.address}: Ray refused: {text}") from None


def join(client: Client, base: str, submit: Callable[[str], None], *, again: bool = False) -> tuple[str, bool]:
    """Joins the sweep's last job if it is active or has succeeded, else starts a new attempt (`base`, `base`-2, ...) by `submit`.

    again: start a new attempt even after one that has succeeded. Returns the job's id and whether this call started it.
    """
    attempts = [(int(match[1] or 1), job) for job in client.jobs() if (match := _attempt(base, job))]
    number, last = max(attempts, key=lambda pair: pair[0], default=(0, None))
    if last is not None and (is_active(last) or (last.status == JobStatus.SUCCEEDED and not again)):
        return str(last.submission_id), False
    id = base if number == 0 else f"{base}-{number + 1}"
    try:
        submit(id)
    except JobExists:  # another submission came first
        return id, False
    return id, True


def _attempt(base: str, job: JobDetails) -> re.Match[str] | None:
    return re.fullmatch(re.escape(base) + r"(?:-([1-9][0-9]{0,5}))?", job.submission_id or "")
