"""`status --address`: a table of the sweeps that were submitted to a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.table import Table

from orchestrator.engines.ray.jobs.job import Job
from orchestrator.tables import cell, make_table


def job_table(jobs: Iterable[Job]) -> Table:
    table = make_table(("job", "sweep", "commit", "status", "exit code", "started", "minutes"), numeric=("exit code", "minutes"))
    for job in jobs:
        started = "" if job.started is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(job.started))
        minutes = "" if job.started is None else f"{((job.ended or time.time()) - job.started) / 60:.1f}"
        code = "" if job.exit_code is None else str(job.exit_code)
        commit = job.metadata.get("nmt_commit", "").replace(" and changes", "+")
        commit = commit[:12] + ("+" if commit.endswith("+") else "")
        table.add_row(cell(job.id), cell(job.metadata.get("nmt_sweep", "")), cell(commit), job.status, code, started, minutes)
    return table
