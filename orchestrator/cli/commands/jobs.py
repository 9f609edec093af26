"""Jobs of a Ray cluster: `submit --attach`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from orchestrator.engines.ray.jobs.access import find_address, find_token
from orchestrator.engines.ray.jobs.api import Client
from orchestrator.engines.ray.jobs.follow import exit_code, follow
from orchestrator.errors import Detached, UserError
from orchestrator.safe_text import log


def attach_job(address: str | None, job: str, arguments: Sequence[str]) -> NoReturn:
    """Follows a job that was submitted before."""
    if arguments:
        raise UserError(f"--attach {job}: found {arguments[0][:80]!r} too; expected nothing else")
    follow_job(Client(find_address(address), find_token()), job)


def follow_job(client: Client, id: str) -> NoReturn:
    """Prints the job's logs on stdout and exits with its exit code."""

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    log(f"{id}: following its logs; Ctrl-C detaches, the job continues")
    try:
        job = follow(client, id, write)
    except KeyboardInterrupt:
        command = f"nmt-ablate submit --attach {shlex.quote(id)} --address {shlex.quote(client.address)}"
        raise Detached(f"detached; {id} continues. To follow it again:  {command}") from None
    code = exit_code(job)
    reason = f": {job.message.splitlines()[0][:300]}" if job.driver_exit_code is None and job.message else ""
    log(f"{id}: {job.status.value}, exit code {code}{reason}")
    if job.driver_exit_code is None or job.driver_exit_code < 0 or code >= 128:  # the sweep could not say so itself
        log("the same `nmt-ablate submit` resumes it from its last checkpoints, as a new attempt")
    raise typer.Exit(code)
