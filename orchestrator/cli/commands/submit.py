"""`submit`: a sweep as a job of a Ray cluster, and `submit --attach`."""

import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import typer

from orchestrator.cli.commands import looks, tune
from orchestrator.cli.commands.run import checked
from orchestrator.cli.options import OnceEach
from orchestrator.cli.output import echo
from orchestrator.engines.ray.address import find_dashboard, find_token
from orchestrator.engines.ray.jobs import api, upload
from orchestrator.errors import ClusterError, Detached, UserError, raise_all
from orchestrator.files.canonical import digest
from orchestrator.ledger import provenance
from orchestrator.ledger.keys import component_versions
from orchestrator.paths import ROOT, in_search_spaces
from orchestrator.safe_text import log
from orchestrator.specs import corpora, index, profiles
from orchestrator.specs.controls import parse, wanted
from orchestrator.specs.positions import shown
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.specs.show import as_plain
from orchestrator.specs.sweep import parse_resources
from orchestrator.sweeps.names import address_of, parse_seeds, sweep_name
from orchestrator.sweeps.options import ExecutionOptions

FOLDERS = {"results": "NMT_RESULTS", "data_dir": "NMT_DATA_DIR", "cache_dir": "NMT_CACHE_DIR"}
"""Options with folders of the cluster, and the environment variables that the job's processes read."""


@dataclass(frozen=True)
class SweepJob:
    """A job. command: its command. env: variables of its processes. needed: files that it reads."""

    id: str
    name: str
    runs: int
    command: str
    env: Mapping[str, str]
    needed: frozenset[Path]


def submit(
    sweep: Callable[..., None],
    arguments: Sequence[str],
    folders: Mapping[str, str | None],
    address: str | None,
    *,
    wait: bool,
    again: bool,
    dry_run: bool,
) -> None:
    """Submits the job of `sweep ARGUMENTS`, or attaches to an equal job. sweep: the command, which parses the arguments."""
    url = find_dashboard(address)
    job = make_job(sweep, arguments, folders)
    files = upload.collect(ROOT, job.needed)
    if dry_run:
        _print_dry_run(job, files)
        return
    token = find_token()
    with api.user_errors(url, token):
        client = api.connect(url, token)
        last, id = api.last_attempt(client, job.id)
    if last is not None and (not last.status.is_terminal() or (last.status.value == "SUCCEEDED" and not again)):
        id = str(last.submission_id)
        done = "has succeeded already: nothing is run (--again would)"
        log(f"{id}: " + (done if last.status.is_terminal() else "runs already: attached"))
    else:
        commit, dirty = provenance.git()
        metadata = {"nmt_sweep": job.name, "nmt_commit": (commit or "unknown") + (" and changes" if dirty else "")}
        with tempfile.TemporaryDirectory(prefix="nmt-upload-") as folder, api.user_errors(url, token):
            upload.copy(files, Path(folder), token)
            log(f"{id}: {job.name}, {job.runs} runs; uploading {len(files.files)} files, {upload.mib(files.bytes)}")
            environment = {"working_dir": folder, "env_vars": dict(job.env)}
            api.start(client, entrypoint=job.command, submission_id=id, runtime_env=environment, metadata=metadata)
    if wait:
        follow_job(url, id, known=True)
    typer.echo(id)


def follow_job(address: str | None, id: str, *, known: bool = False) -> NoReturn:
    """Prints the job's logs on stdout and exits with its exit code. known: whether the head has the job.

    UserError: the job cannot be found. ClusterError: the head is lost while this follows the job.
    """
    url, token = find_dashboard(address), find_token()
    again = f"To follow it again:  nmt-ablate submit --attach {shlex.quote(id)} --address {shlex.quote(url)}"
    try:
        with api.user_errors(url, token):
            client = api.connect(url, token)
            known = known or client.get_job_info(id) is not None
            log(f"{id}: following its logs; Ctrl-C detaches, the job continues")
            job = api.follow(client, id, partial(print, end="", flush=True))
    except KeyboardInterrupt:
        raise Detached(f"detached; {id} continues. {again}") from None
    except UserError as error:
        if not known:
            raise
        if api.UNKNOWN not in str(error):
            log(f"{id}: {again}")
        raise ClusterError(*error.lines) from None
    code = api.exit_code(job)
    reason = f": {job.message.splitlines()[0][:300]}" if job.driver_exit_code is None and job.message else ""
    log(f"{id}: {job.status.value}, exit code {code}{reason}")
    if job.driver_exit_code is None or job.driver_exit_code < 0 or code >= 128:  # the sweep could not print this itself
        log("the same `nmt-ablate submit` resumes it from its last checkpoints, as a new attempt")
    raise typer.Exit(code)


def make_job(sweep: Callable[..., None], arguments: Sequence[str], folders: Mapping[str, str | None] | None = None) -> SweepJob:
    """Returns the job of `sweep ARGUMENTS`, parsed by the command itself. UserError: `sweep` would refuse the arguments."""
    app = typer.Typer(add_completion=False)
    app.command("sweep", cls=OnceEach)(sweep)
    command = typer.main.get_command(app)
    command.params = [each for each in command.params if each.name not in FOLDERS]  # this machine's folders do not exist on the cluster
    with command.make_context("submit", list(arguments)) as context:
        given = dict(context.params)
        texts, _, order = command.make_parser(context).parse_args(list(arguments))
    target, seeds = given.pop("target"), parse_seeds(given.pop("seeds"))
    options = ExecutionOptions(**given)
    if options.ladder is not None:
        raise UserError("--ladder: found with submit; expected --profile, a job for each size")
    env = _folders(folders or {})
    rows, section = resolve(target, sets=options.sets, profile=options.profile), sweep_of(target, options.profile)
    limits = parse_resources(options.resources)
    found = index.find_all(target)
    tuned = tune.tuning_of([each.table for each in found], options.tune_with) if tune.wanted(options) else None
    seeds = seeds or section.seeds if tuned is None else tune.judging(tuned, seeds)
    if options.until_decided:
        looks.check(target, section, seeds, options.max_hours)
    trained, _ = checked(rows, seeds, options)
    kinds = parse(options.controls)
    versions = [component_versions(row.spec.model) for row in trained if row.spec is not None]
    there, own_profile = options, Path(options.profile) if options.profile is not None and options.profile.endswith(".yaml") else None
    if options.tune_with is not None:
        texts["tune_with"] = _from_root(options.tune_with)
        there = replace(there, tune_with=Path(texts["tune_with"]))
    if own_profile is not None:
        texts["profile"] = _from_root(own_profile)
        there = replace(there, profile=texts["profile"])
    words = list[str]()
    options_given: list[Any] = [each for each in dict.fromkeys(order) if each.param_type_name == "option"]
    for option in options_given:
        values = texts[option.name] if option.multiple else [texts[option.name]]
        words += [option.opts[0]] if option.is_flag else [word for value in values for word in (option.opts[0], value)]
    name = sweep_name(address_of(target, rows), there.profile, options.sets, kinds)
    same = repr(replace(there, as_json=False, no_tracking=False, tracking_uri=None))
    content = [name, seeds, same, limits, section.model_dump(mode="json"), list(map(as_plain, trained)), versions]
    content += ([] if tuned is None else [tuned.spec.model_dump(mode="json")]) + ([env] if env else [])
    tables = [each.table.path for each in found] + [Path(each.source_file) for row in rows for each in row.lineage]
    tables += [] if options.tune_with is None else [options.tune_with]
    tables += [] if own_profile is None else profiles.files(own_profile)
    needed = {*tables, *(corpora.entry_file(row.spec.data.corpus) for row in rows if row.spec is not None), ROOT / "cluster" / "sweep.sh"}
    file, mark, chosen = target.partition("#")
    place = in_search_spaces(Path(file))
    target = f"{_from_root(place)}{mark}{chosen}" if place.exists() else target
    runs = len(seeds) + (0 if tuned is None else tuned.spec.trials * len(tuned.spec.seeds.search))
    number = (len(trained) + sum(map(len, wanted(rows, kinds).values()))) * runs
    job = f"sweep-{digest(content)[:16]}"
    return SweepJob(job, name, number, shlex.join(["bash", "cluster/sweep.sh", target, *words]), env, frozenset(needed))


def _from_root(file: Path) -> str:
    """Returns the path of a file from the root of the upload, where the job runs."""
    return os.path.relpath(file.resolve(), ROOT)


def _folders(folders: Mapping[str, str | None]) -> dict[str, str]:
    """Returns environment variables for the given folders. UserError: a relative path, which Ray would delete with the job's upload."""
    given = {name: value for name, value in folders.items() if value is not None}
    raise_all(
        f"--{name.replace('_', '-')} {shown(value)}: a folder of the cluster that every node sees; expected an absolute path"
        for name, value in given.items()
        if not PurePosixPath(value).is_absolute() and not (name == "results" and "://" in value)
    )
    return {FOLDERS[name]: value for name, value in given.items()}


def _print_dry_run(job: SweepJob, files: upload.Upload) -> None:
    try:
        token = find_token()
    except UserError:  # there may be no cluster yet
        token = ""
    with tempfile.TemporaryDirectory(prefix="nmt-upload-") as folder:
        upload.copy(files, Path(folder), token)
    echo([f"job:     {job.id}", f"sweep:   {job.name}, {job.runs} runs", f"command: {job.command}"])
    echo(f"         {name}={value}" for name, value in job.env.items())
    echo([f"upload:  {len(files.files)} files, {upload.mib(files.bytes)}"])
    echo(f"left out, for its name: {name}" for name in files.withheld)
