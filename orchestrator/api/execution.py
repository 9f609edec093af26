"""Runs rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Unpack

import pandas as pd

from orchestrator.api.frames import results
from orchestrator.api.targets import Target, Where, as_text, row_options
from orchestrator.cli.commands.run import checked, prepare_run, prepare_sweep
from orchestrator.engines.execute import execute
from orchestrator.specs import index
from orchestrator.sweeps.options import ExecutionOptions


def run(
    target: Target,
    *,
    seeds: Sequence[int] | None = None,
    engine: str = "local",
    jobs: int | str = 1,
    tracking: bool = True,
    tracking_uri: str | None = None,
    **where: Unpack[Where],
) -> pd.DataFrame:
    """Trains, decodes and scores what is not done yet, as `nmt-ablate sweep` does, and returns the `results` of the target.

    Args:
        target: A table under its scheduler and seeds, or one row, by default with seed 1 and to its end; a mapping holds what a table's
            file does.
        seeds: Default: those of the file's sweep section.
        engine: `local` or `ray`.
        jobs: Runs side by side with the local engine: a number or `auto`.
        tracking: Write to MLflow. tracking_uri: its address; default: a file in the results folder.
        where: See `Where`.

    Equal work is done once, and an interrupted call goes on where it stopped. A failed run has its status and reason in the result.
    Rows that a `retrain` section would train again are left to the command. Raises UserError for bad input before anything starts.
    """
    places = asdict(row_options(where))
    options = ExecutionOptions(**places, engine=engine, jobs=str(jobs), no_tracking=not tracking, tracking_uri=tracking_uri)
    with as_text(target) as text:
        (first, *more) = index.find_all(text)
        prepare = prepare_run if not more and (first.row is not None or first.table.is_single) else prepare_sweep
        rows, chosen, options = prepare(text, None if seeds is None else list(seeds), options)
        rows, options = checked(rows, chosen, options)
        execute(rows, chosen, options)
        return results(text, seeds=chosen, **where)
