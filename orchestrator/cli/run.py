"""`run`, `sweep`, `noise` and `submit`: rows become results."""

from typing import Annotated

import typer
from typer import Argument, Option

from orchestrator.cli.options import Seed, Seeds, expand_options
from orchestrator.errors import UserError
from orchestrator.sweeps.options import ExecutionOptions

Address = Annotated[
    str | None,
    Option("--address", envvar="RAY_API_SERVER_ADDRESS", help="Dashboard of the cluster's head [default: http://127.0.0.1:8265]."),
]
Rows = Annotated[str, Argument(metavar="ROW|FILE|FOLDER", help="paper/table/row, FILE.yaml, FILE.yaml#row, or a folder.")]
Table = Annotated[
    str, Argument(metavar="FILE|TABLE|FOLDER", help="FILE.yaml, paper/table, rows of it (paper/table/row1,row5,mlrf*), or a folder.")
]


@expand_options()
def run(target: Rows, options: ExecutionOptions, seed: Seed = None) -> None:
    """Train, decode and score one row, or every row of a file or folder with its full budget. Finished work is not repeated.

    Example:  nmt-ablate run dou2018/table1/row9 --profile smoke
    """
    from orchestrator.cli.commands.run import execute_rows, prepare_run

    request, seeds, options = prepare_run(target, None if seed is None else [seed], options)
    execute_rows(request.rows, seeds, options, request)


@expand_options("controls", "max_hours", "until_decided", "tune", "tune_with", "ladder", engine="auto", jobs="")
def sweep(target: Table, options: ExecutionOptions, seeds: Seeds = None) -> None:
    """Run every row of a file with every seed, under the scheduler of its sweep section. The same command resumes an interrupted sweep.

    At the cap of --max-gpu-hours the sweep stops as with Ctrl-C. The same command with a larger cap resumes it.

    A folder runs every row of all its tables and does shared work once. None of its tables may have a scheduler that stops rows early.

    Example:  nmt-ablate sweep search_spaces/quickstart.yaml
    """
    from orchestrator.cli.commands.run import sweep
    from orchestrator.sweeps.names import parse_seeds

    sweep(target, parse_seeds(seeds), options)


@expand_options("max_hours", engine="auto", jobs="")
def noise(
    target: Annotated[str, Argument(metavar="ROW", help="paper/table/row or FILE.yaml#row: a cheap baseline.")],
    options: ExecutionOptions,
    seeds: Annotated[int, Option("--seeds", min=2, max=1000, help="How many seeds, from 1.")] = 20,
) -> None:
    """Train one row with many seeds and record the variance of its scores: the noise floor that plans and tables use.

    Example:  nmt-ablate noise shen2018/table1/row1/de-en-e256 --profile mini-short --seeds 20
    """
    from dataclasses import replace

    from orchestrator.cli.commands.request import only, open_ledger
    from orchestrator.cli.commands.run import execute_rows
    from orchestrator.cli.output import console, print_json
    from orchestrator.report import noise_floor
    from orchestrator.report.find import Finder
    from orchestrator.scoring.significance.sentence_statistics import TITLES
    from orchestrator.specs.rows import resolve
    from orchestrator.specs.sweep import parse_resources
    from orchestrator.sweeps.names import sweep_name
    from orchestrator.sweeps.plan import Data
    from orchestrator.tables import filled_table

    row, wanted = only(target, resolve(target, sets=options.sets, profile=options.profile)), list(range(1, seeds + 1))
    name = f"{sweep_name(row.id, options.profile, options.sets)}:noise"
    section = {"scheduler": {"kind": "fifo"}, "resources": parse_resources(options.resources)}
    execute_rows([row], wanted, replace(options, name=name, sweep=section))
    finder = Finder(open_ledger(options.results), Data(options.data_dir, options.cache_dir))
    record = noise_floor.measure(row, {row.id: finder.outcomes(row, wanted)}, finder.reader)
    if not record["metrics"]:
        raise UserError(f"{row.id}: found no two finished seeds; expected at least two")
    noise_floor.save(finder.ledger, record)
    if options.as_json:
        print_json(record)
    columns = {"mean": "mean", "sd over seeds": "sd", "se over sentences": "sentences"}
    lines = []
    for name, found in record["metrics"].items():
        values = {column: f"{found[key]:.{4 if name == 'nll' else 2}f}" for column, key in columns.items()}
        lines.append({"metric": TITLES[name]} | values)
    console(stderr=options.as_json).print(filled_table(lines, title=f"{row.id}, {record['seeds']} seeds", numeric=columns))


def submit(
    ctx: typer.Context,
    address: Address = None,
    attach: Annotated[str | None, Option("--attach", metavar="JOB", help="Follow this job (as `ray job list` names it).")] = None,
    results: Annotated[str | None, Option("--results", metavar="DIR|URL", help="The ledger, as the cluster's nodes name it.")] = None,
    data_dir: Annotated[str | None, Option("--data-dir", metavar="DIR", help="Likewise: the corpora.")] = None,
    cache_dir: Annotated[str | None, Option("--cache-dir", metavar="DIR", help="Likewise: prepared corpora.")] = None,
    no_wait: Annotated[bool, Option("--no-wait", help="Print the job's name and do not follow its logs.")] = False,
    again: Annotated[bool, Option("--again", help="Start a new attempt even if the last one succeeded.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Check, print what would be uploaded and run; contact no cluster.")] = False,
) -> None:
    """Run `nmt-ablate sweep` on a Ray cluster: check the spec, upload this checkout, follow the logs, exit with the sweep's exit code.

    It takes SPEC and the options of `sweep` except --ladder. Without --results, --data-dir or --cache-dir, the nodes' settings apply.
    Submitting the same sweep again attaches to the running job or reports that it is done. After a failure or a stop it starts a new
    attempt. Ctrl-C detaches (exit code 130); the job continues. Token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token.

    Example:  nmt-ablate submit cluster/smoke.yaml --address http://127.0.0.1:8265
    """
    from orchestrator.cli.commands.submit import follow_job, submit

    if attach is not None:
        if ctx.args:
            raise UserError(f"--attach {attach}: found {ctx.args[0][:80]!r} too; expected nothing else")
        follow_job(address, attach)
    folders = {"results": results, "data_dir": data_dir, "cache_dir": cache_dir}
    submit(sweep, ctx.args, folders, address, wait=not no_wait, again=again, dry_run=dry_run)
