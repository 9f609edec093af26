"""`submit`: a sweep on a cluster, from this terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.run import sweep

if TYPE_CHECKING:
    from orchestrator.engines.ray.jobs.api import Client
    from orchestrator.engines.ray.jobs.sweep_job import SweepJob

Address = Annotated[
    str | None,
    typer.Option("--address", envvar="RAY_API_SERVER_ADDRESS", help="Dashboard of the cluster's head [default: http://127.0.0.1:8265]."),
]


def register(app: typer.Typer) -> None:
    app.command("submit", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(submit)


def submit(
    ctx: typer.Context,
    address: Address = None,
    attach: Annotated[str | None, typer.Option("--attach", metavar="JOB", help="Follow this job (as `status --address` lists it).")] = None,
    results: Annotated[str | None, typer.Option("--results", metavar="DIR|URL", help="The ledger, as the cluster's nodes name it.")] = None,
    data_dir: Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="Likewise: the corpora.")] = None,
    cache_dir: Annotated[str | None, typer.Option("--cache-dir", metavar="DIR", help="Likewise: prepared corpora.")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not follow the logs: print the job's name.")] = False,
    again: Annotated[bool, typer.Option("--again", help="A new attempt even where the last one succeeded.")] = False,
    dry: Annotated[bool, typer.Option("--dry-run", help="Check, say what would be uploaded and run; reach no cluster.")] = False,
) -> None:
    """Run `nmt-ablate sweep` on a Ray cluster: check the spec, upload this checkout, follow the logs, end with the sweep's exit code.

    Takes SPEC and every option of `sweep`. Without --results, --data-dir or --cache-dir those of the cluster's nodes count.
    The same sweep again attaches to the job that runs, or tells that it is done; after a failure or a stop it is a new attempt.
    Ctrl-C detaches (exit code 130), the job goes on. Token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token.

    Example:  nmt-ablate submit cluster/smoke.yaml --address http://127.0.0.1:8265
    """
    from orchestrator.cli.options import note
    from orchestrator.engines.ray.jobs.access import find_address, find_token
    from orchestrator.errors import UserError

    url = find_address(address)
    if attach is not None:
        if ctx.args:
            raise UserError(f"--attach {attach}: found {ctx.args[0][:80]!r} too; expected nothing else")
        _follow(_client(url, find_token()), attach)
    job = _job(list(ctx.args), {"results": results, "data_dir": data_dir, "cache_dir": cache_dir})
    if dry:
        _tell(job)
        return
    client = _client(url, find_token())
    joined = _submitted(client, job, again)
    if not joined.new:
        known = client.job(joined.id)
        state = "runs already: attached" if known is not None and known.active else "has succeeded already: nothing is run (--again would)"
        note(f"{joined.id}: {state}")
    if no_wait:
        typer.echo(joined.id)
        return
    _follow(client, joined.id)


def list_jobs(address: str, as_json: bool) -> None:
    """What `status --address` prints."""
    from orchestrator.cli.options import console, emit
    from orchestrator.engines.ray.jobs.access import find_address, find_token
    from orchestrator.engines.ray.jobs.listing import job_table

    url = find_address(address)
    found = _client(url, find_token()).jobs()
    if as_json:
        emit({"address": url, "jobs": [job.to_json() for job in found]})
    elif not found:
        typer.echo(f"no jobs at {url}")
    else:
        console().print(job_table(found))


def _job(arguments: list[str], folders: dict[str, str | None] | None = None) -> SweepJob:
    """`arguments` as `sweep` reads them: its own parser, so that what is wrong is told before anything travels."""
    from orchestrator.engines.ray.jobs import sweep_job
    from orchestrator.paths import ROOT

    app = typer.Typer(add_completion=False)
    app.command("sweep")(sweep)
    command = typer.main.get_command(app)
    # sweep would open the ledger that this machine's environment names
    command.params = [_without_environment(parameter) if parameter.name in sweep_job.FOLDERS else parameter for parameter in command.params]
    with command.make_context("submit", list(arguments)) as parsed:
        given = {
            name: value
            for name, value in parsed.params.items()
            if getattr(parsed.get_parameter_source(name), "name", "") == "COMMANDLINE" and name != "target"
        }
        kept: list[str] = []
        for parameter in command.params:
            if parameter.name in given and parameter.name not in sweep_job.FOLDERS:
                kept += _written(parameter.opts[0], given[parameter.name])
        given |= {name: value for name, value in (folders or {}).items() if value is not None}
        return sweep_job.make(ROOT, parsed.params["target"], given, kept)


def _without_environment(parameter: Any) -> Any:
    import copy

    plain = copy.copy(parameter)
    plain.envvar = None
    return plain


def _written(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option] if value else []
    return [text for item in (value if isinstance(value, (list, tuple)) else [value]) for text in (option, str(item))]


def _upload(job: SweepJob) -> Any:
    from orchestrator.engines.ray.jobs import upload
    from orchestrator.engines.ray.jobs.api import ignored_by
    from orchestrator.errors import UserError
    from orchestrator.paths import ROOT

    if not (ROOT / "cluster" / "sweep.sh").is_file():
        raise UserError("submit uploads the checkout that it runs from; expected cluster/sweep.sh in it (pip install -e .)")
    found = upload.collect(ROOT, ignored_by)
    upload.check_readable(found, [*job.files, ROOT / "cluster" / "sweep.sh", ROOT / "orchestrator" / "cli" / "main.py"])
    return found


def _tell(job: SweepJob) -> None:
    from orchestrator.engines.ray.jobs.upload import mib
    from orchestrator.safe_text import visible

    found = _upload(job)
    for line in (
        f"job:     {job.id}",
        f"sweep:   {job.name}, {job.runs} runs",
        f"command: {job.entrypoint}",
        *(f"         {name}={value}" for name, value in job.env.items()),
        f"upload:  {len(found.files)} files, {mib(found.bytes)}",
        *(f"left out, for its name: {name}" for name in found.withheld if name.parts[0] not in (".git", ".venv")),
    ):
        typer.echo(visible(line))


def _client(url: str, token: str) -> Client:
    from orchestrator.engines.ray.jobs.api import Client

    return Client(url, token)


def _submitted(client: Client, job: SweepJob, again: bool) -> Any:
    """The sweep's job, uploaded and started where there is none to join."""
    import tempfile

    from orchestrator.cli.options import note
    from orchestrator.engines.ray.jobs import upload
    from orchestrator.engines.ray.jobs.access import find_token
    from orchestrator.engines.ray.jobs.attempts import join
    from orchestrator.ledger import provenance

    found = _upload(job)
    commit, dirty = provenance.git()

    def send(id: str) -> None:
        with tempfile.TemporaryDirectory(prefix="nmt-upload-") as folder:
            package = Path(folder) / "checkout.zip"
            upload.write_zip(found, package, commit=commit, dirty=dirty, token=find_token())
            note(f"{id}: {job.name}, {job.runs} runs; uploading {len(found.files)} files, {upload.mib(package.stat().st_size)}")
            about = {
                "nmt_sweep": job.name,
                "nmt_runs": str(job.runs),
                "nmt_commit": (commit or "unknown") + (" and changes" if dirty else ""),
            }
            client.submit(id, job.entrypoint, package, dict(job.env), about)

    return join(client, job.id, send, again=again)


def _follow(client: Client, id: str) -> None:
    """Its logs on stdout; then its exit code."""
    from orchestrator.cli.options import note
    from orchestrator.engines.ray.jobs.follow import exit_code, follow
    from orchestrator.errors import Detached

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    note(f"{id}: following its logs; Ctrl-C detaches, the job goes on")
    try:
        job = follow(client, id, write)
    except KeyboardInterrupt:
        back = f"nmt-ablate submit --attach {id} --address {client.address}"
        raise Detached(f"detached; {id} goes on. Back to it:  {back}") from None
    code = exit_code(job)
    why = f": {job.message.splitlines()[0][:300]}" if job.exit_code is None and job.message else ""
    note(f"{id}: {job.status}, exit code {code}{why}")
    raise typer.Exit(code)
