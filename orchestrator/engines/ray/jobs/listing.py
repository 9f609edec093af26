"""The sweeps that were submitted to a cluster, as JSON and as a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ray.job_submission import JobDetails
from rich.table import Table

from orchestrator.tables import cell, make_table


def record(job: JobDetails) -> dict[str, Any]:
    metadata = job.metadata or {}
    started, ended = (None if time is None else time / 1000 for time in (job.start_time, job.end_time))
    return {
        "job": job.submission_id,
        "sweep": metadata.get("nmt_sweep"),
        "commit": metadata.get("nmt_commit"),
        "status": job.status.value,
        "exit_code": job.driver_exit_code,
        "started": started,
        "ended": ended,
    }


def job_table(jobs: Sequence[JobDetails]) -> Table:
    table = make_table(("job", "sweep", "commit", "status", "exit code", "started", "minutes"), numeric=("exit code", "minutes"))
    for row in map(record, jobs):
        start, commit = row["started"], row["commit"] or ""
        started = "" if start is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(start))
        minutes = "" if start is None else f"{((row['ended'] or time.time()) - start) / 60:.1f}"
        commit = commit[:12] + ("+" if commit.endswith(" and changes") else "")
        code = "" if row["exit_code"] is None else str(row["exit_code"])
        table.add_row(cell(row["job"]), cell(row["sweep"] or ""), cell(commit), row["status"], code, started, minutes)
    return table
