"""`submit`: a sweep as a job of a Ray cluster, and `submit --attach`."""

import copy
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import typer

from orchestrator.cli.output import echo
from orchestrator.engines.ray.address import find_dashboard, find_token
from orchestrator.engines.ray.jobs import sweep_job, upload
from orchestrator.engines.ray.jobs.api import Client, exit_code, follow, is_active, join
from orchestrator.engines.ray.jobs.sweep_job import FOLDERS, SweepJob
from orchestrator.errors import Detached, UserError
from orchestrator.ledger import provenance
from orchestrator.paths import ROOT
from orchestrator.safe_text import log

Folders = Mapping[str, str | None]
"""Options of `sweep` that name folders of the cluster."""


def submit(
    sweep: Callable[..., None], arguments: Sequence[str], folders: Folders, address: str | None, *, wait: bool, again: bool, dry_run: bool
) -> None:
    """Submits the job of `sweep ARGUMENTS`, or joins the job that does the same. sweep: the command, which parses the arguments."""
    url = find_dashboard(address)
    job = make_job(sweep, arguments, folders)
    if dry_run:
        _print_dry_run(job)
        return
    client = Client(url, find_token())
    files = _collect(job)
    id, new = join(client, job.id, lambda id: _upload(client, job, files, id), again=again)
    if not new:
        running = client.job(id)
        attached = running is not None and is_active(running)
        log(f"{id}: " + ("runs already: attached" if attached else "has succeeded already: nothing is run (--again would)"))
    if not wait:
        typer.echo(id)
        return
    follow_job(client, id)


def attach_job(address: str | None, job: str, arguments: Sequence[str]) -> NoReturn:
    """Follows a job that was submitted before."""
    if arguments:
        raise UserError(f"--attach {job}: found {arguments[0][:80]!r} too; expected nothing else")
    follow_job(Client(find_dashboard(address), find_token()), job)


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


def make_job(sweep: Callable[..., None], arguments: Sequence[str], folders: Folders | None = None) -> SweepJob:
    """The job of `sweep ARGUMENTS`. Parsed by the command itself, so that errors are reported before anything is uploaded."""
    app = typer.Typer(add_completion=False)
    app.command("sweep")(sweep)
    command = copy.deepcopy(typer.main.get_command(app))
    for parameter in command.params:
        if parameter.name in FOLDERS:
            parameter.envvar = None  # sweep would open the ledger that this machine's environment names
    with command.make_context("submit", list(arguments)) as context:
        source = lambda name: getattr(context.get_parameter_source(name), "name", "")  # noqa: E731
        options = {name: value for name, value in context.params.items() if source(name) == "COMMANDLINE" and name != "target"}
        options |= {name: value for name, value in (folders or {}).items() if value is not None}
        words = list(arguments)
        words.remove(context.params["target"])
        return sweep_job.make(ROOT, context.params["target"], options, words)


def _collect(job: SweepJob) -> upload.Upload:
    """The files of this checkout. UserError where the job could not run from them."""
    program = ROOT / "cluster" / "sweep.sh"
    if not program.is_file():
        raise UserError("submit uploads the checkout that it runs from; expected cluster/sweep.sh in it (pip install -e .)")
    return upload.collect(ROOT, [*job.files, program, ROOT / "orchestrator" / "cli" / "main.py"])


def _print_dry_run(job: SweepJob) -> None:
    files = _collect(job)
    try:
        token = find_token()
    except UserError:  # there may be no cluster yet
        token = ""
    with tempfile.TemporaryDirectory(prefix="nmt-upload-") as folder:
        upload.copy(files, Path(folder), job.extra, token)
    echo([f"job:     {job.id}", f"sweep:   {job.name}, {job.runs} runs", f"command: {job.entrypoint}"])
    echo(f"         {name}={value}" for name, value in job.env.items())
    echo([f"upload:  {len(files.files)} files, {upload.mib(files.bytes)}"])
    echo(f"         and, from outside of the checkout, {name}" for name in job.extra)
    echo(f"left out, for its name: {name}" for name in files.withheld)


def _upload(client: Client, job: SweepJob, files: upload.Upload, id: str) -> None:
    """Uploads the checkout and starts the job as `id`."""
    commit, dirty = provenance.git()
    metadata = {"nmt_sweep": job.name, "nmt_commit": (commit or "unknown") + (" and changes" if dirty else "")}
    with tempfile.TemporaryDirectory(prefix="nmt-upload-") as folder:
        upload.copy(files, Path(folder), job.extra, find_token())
        log(f"{id}: {job.name}, {job.runs} runs; uploading {len(files.files)} files, {upload.mib(files.bytes)}")
        client.submit(id, job.entrypoint, Path(folder), dict(job.env), metadata)
