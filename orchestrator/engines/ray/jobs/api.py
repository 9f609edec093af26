"""Ray's jobs API as this product uses it: with a token of its own, time limits, and errors of one line."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.engines.ray.jobs.upload import Ignored
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

CONNECT, READ = 5.0, 120.0
"""Seconds to reach the dashboard, and for one answer of it (an upload of 100 MiB included)."""

YOUNG = 180.0
"""Seconds that a head whose job agent is not up yet is asked again: it answers, and says try again later."""

LIVE, DONE = ("PENDING", "RUNNING"), "SUCCEEDED"


@dataclass(frozen=True)
class Job:
    """A job of the cluster. status: PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED. exit_code: the entry point's own, if it had one.
    started, ended: unix seconds."""

    id: str
    status: str
    exit_code: int | None
    message: str
    metadata: dict[str, str]
    started: float | None
    ended: float | None

    @property
    def live(self) -> bool:
        return self.status in LIVE


class Taken(Exception):
    """A job of this name exists."""


class Client:
    """The cluster at `address` (http://HOST:PORT). UserError at once where it cannot be reached or the token is not its own."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address, token
        with self._told(), _only_this(address):
            from ray.job_submission import JobSubmissionClient

            for name in ("ray.dashboard.modules.job.sdk", "ray.dashboard.modules.dashboard_sdk"):
                logging.getLogger(name).setLevel(logging.ERROR)  # the import sets INFO

            class Limited(JobSubmissionClient):
                """Requests with time limits, never redirected: the token goes to the named host alone."""

                def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
                    limits = {"timeout": (CONNECT, READ), "allow_redirects": False}
                    return super()._do_request(method, endpoint, **(limits | options))

            self._sdk = Limited(address, headers={"Authorization": f"Bearer {token}"})

    def submit(self, id: str, entrypoint: str, package: Path, env: dict[str, str], metadata: dict[str, str]) -> None:
        """`package`: a zip that becomes the job's working directory. Taken where a job of this id exists."""
        environment: dict[str, Any] = {"working_dir": str(package)} | ({"env_vars": env} if env else {})
        deadline = time.monotonic() + YOUNG
        with self._told():
            while True:
                try:
                    self._sdk.submit_job(entrypoint=entrypoint, submission_id=id, runtime_env=environment, metadata=metadata)
                    return
                except RuntimeError as error:
                    if "already exists" in str(error):
                        raise Taken(id) from None
                    if "No available agent" not in str(error) or time.monotonic() >= deadline:
                        raise
                time.sleep(2.0)

    def job(self, id: str) -> Job | None:
        """None where there is none of this id."""
        with self._told():
            try:
                return _job(self._sdk.get_job_info(id))
            except RuntimeError as error:
                if "status code 404" in str(error):
                    return None
                raise

    def jobs(self) -> list[Job]:
        """Those that were submitted, oldest first."""
        with self._told():
            found = [_job(details) for details in self._sdk.list_jobs() if details.submission_id]
        return sorted(found, key=lambda job: job.started or 0.0)

    def stop(self, id: str) -> bool:
        """Ask it to end; False where it had ended."""
        with self._told():
            return bool(self._sdk.stop_job(id))

    def logs(self, id: str) -> AsyncIterator[str]:
        """From the first line on, until the job has ended. Any exception where the connection is lost."""
        return self._sdk.tail_job_logs(id)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the network and of the cluster in one line each, the token not in it."""
        import requests
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError as error:
            wrong = "Authentication failed" in str(error)
            what = "the token is not the cluster's" if wrong else "the cluster wants a token and got none"
            raise UserError(f"{self.address}: {what}: set RAY_AUTH_TOKEN_PATH to the file that holds it") from None
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


def ignored_by(folder: Path) -> list[Ignored]:
    """The rules of a folder's .gitignore and .rayignore, read as `ray job submit --working-dir` reads them."""
    from ray._private.runtime_env.packaging import get_excludes_from_ignore_files

    quiet = logging.getLogger("nmt.upload")
    quiet.setLevel(logging.ERROR)
    return list(get_excludes_from_ignore_files(folder, include_gitignore=True, logger=quiet))


@contextmanager
def _only_this(address: str) -> Iterator[None]:
    """Ray's variables would win over the address that was asked for."""
    kept = {name: os.environ.pop(name, None) for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")}
    os.environ["RAY_API_SERVER_ADDRESS"] = address
    try:
        yield
    finally:
        del os.environ["RAY_API_SERVER_ADDRESS"]
        os.environ.update({name: value for name, value in kept.items() if value is not None})


def _job(details: Any) -> Job:
    return Job(
        id=str(details.submission_id),
        status=str(getattr(details.status, "value", details.status)),
        exit_code=details.driver_exit_code,
        message=str(details.message or ""),
        metadata=dict(details.metadata or {}),
        started=None if details.start_time is None else details.start_time / 1000,
        ended=None if details.end_time is None else details.end_time / 1000,
    )
