"""`run`, `sweep`, `noise` and `submit`: rows become results."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from orchestrator.cli.options import Controls, MaxHours, Seed, Seeds, expand_options
from orchestrator.sweeps.options import ExecutionOptions

Address = Annotated[
    str | None,
    typer.Option("--address", envvar="RAY_API_SERVER_ADDRESS", help="Dashboard of the cluster's head [default: http://127.0.0.1:8265]."),
]


@expand_options()
def run(
    target: Annotated[
        str,
        typer.Argument(metavar="ROW|FILE|FOLDER", help="paper/table/row, FILE.yaml, FILE.yaml#row, a folder, or a file that `show` wrote."),
    ],
    options: ExecutionOptions,
    seed: Seed = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Train rows that have a result anew and keep the old result below RESULTS/earlier. The row that one starts from is "
            "trained anew only if it is named; rows that share the training get the new result too.",
        ),
    ] = False,
) -> None:
    """Train, decode and score one row, or every row of a file or folder with its full budget. Finished work is not repeated.

    Example:  nmt-ablate run dou2018/table1/row9 --profile smoke
    """
    from orchestrator.cli.commands.run import run

    run(target, seed, replace(options, again=again))


@expand_options(engine="ray")
def sweep(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|TABLE|FOLDER", help="FILE.yaml, paper/table, rows of it (paper/table/row1,row5,mlrf*), or a folder of tables."
        ),
    ],
    options: ExecutionOptions,
    seeds: Seeds = None,
    controls: Controls = None,
    max_hours: MaxHours = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="Run the first 3 seeds, then all seeds of the rows whose claims these do not decide. Needs a cap on hours.",
        ),
    ] = False,
) -> None:
    """Run every row of a file with every seed, under the scheduler of its sweep section. The same command resumes an interrupted sweep.

    At the cap of --max-gpu-hours it stops as if by Ctrl-C; the same command with a larger cap resumes it.

    For a folder: every row of all its tables, with shared work done once; none of them may have a scheduler that stops rows early.

    Example:  nmt-ablate sweep search_spaces/quickstart.yaml
    """
    from orchestrator.cli.commands.run import sweep

    sweep(target, seeds, replace(options, controls=controls, max_hours=max_hours, until_decided=until_decided))


@expand_options(engine="ray")
def noise(
    target: Annotated[str, typer.Argument(metavar="ROW", help="paper/table/row or FILE.yaml#row: a cheap baseline.")],
    options: ExecutionOptions,
    seeds: Annotated[int, typer.Option("--seeds", min=2, max=1000, help="How many seeds, from 1.")] = 20,
    max_hours: MaxHours = None,
) -> None:
    """Train one row with many seeds and keep how much its scores vary: the noise floor that plans and tables use.

    Example:  nmt-ablate noise shen2018/table1/row1/de-en-e256 --profile mini --seeds 20
    """
    from orchestrator.cli.commands.noise import noise

    noise(target, seeds, replace(options, max_hours=max_hours))


def submit(
    ctx: typer.Context,
    address: Address = None,
    attach: Annotated[str | None, typer.Option("--attach", metavar="JOB", help="Follow this job (as `ray job list` names it).")] = None,
    results: Annotated[str | None, typer.Option("--results", metavar="DIR|URL", help="The ledger, as the cluster's nodes name it.")] = None,
    data_dir: Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="Likewise: the corpora.")] = None,
    cache_dir: Annotated[str | None, typer.Option("--cache-dir", metavar="DIR", help="Likewise: prepared corpora.")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Print the job's name and do not follow its logs.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Start a new attempt even if the last one succeeded.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, print what would be uploaded and run; contact no cluster.")] = False,
) -> None:
    """Run `nmt-ablate sweep` on a Ray cluster: check the spec, upload this checkout, follow the logs, exit with the sweep's exit code.

    Takes SPEC and every option of `sweep`. Without --results, --data-dir or --cache-dir the settings of the cluster's nodes apply.
    Submitting the same sweep again attaches to the running job, or reports that it is done; after a failure or a stop it starts a new
    attempt. Ctrl-C detaches (exit code 130); the job continues. Token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token.

    Example:  nmt-ablate submit cluster/smoke.yaml --address http://127.0.0.1:8265
    """
    if attach is not None:
        from orchestrator.cli.commands.submit import attach_job

        attach_job(address, attach, ctx.args)
    from orchestrator.cli.commands.submit import submit

    folders = {"results": results, "data_dir": data_dir, "cache_dir": cache_dir}
    submit(sweep, ctx.args, folders, address, wait=not no_wait, again=again, dry_run=dry_run)
