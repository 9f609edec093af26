"""`repro`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from orchestrator.cli.commands.rows import open_ledger, resolve_one
from orchestrator.cli.output import console, print_json, stdout_to_stderr
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.lifecycle import recorded
from orchestrator.lifecycle.reproduce import Reproduced, fresh_folder, reproduce
from orchestrator.lifecycle.verdict import Tolerance
from orchestrator.safe_text import log
from orchestrator.sweeps.options import RowOptions
from orchestrator.tables import cell, make_table


def repro(
    target: str,
    seed: int | None,
    options: RowOptions,
    into: Path | None,
    tolerance: tuple[float, float],
    *,
    strict: bool,
    as_json: bool,
) -> None:
    """tolerance: in points of BLEU and in nats per token."""
    need_folder(options.data_dir, "--data-dir")
    ledger = open_ledger(options.results)
    if recorded.is_key(target):
        if seed is not None or options.profile is not None or options.sets:
            raise UserError(f"{target}: a train key implies seed, profile and overrides; expected none of these options")
        run = recorded.by_key(ledger, target)
    else:
        run = recorded.of_row(ledger, resolve_one(target, seed, options), options.data_dir)
    for line in run.notes:
        log(line)
    key = run.keys[run.row.id].train or ""
    with fresh_folder(options.results, into, key) as folder, stdout_to_stderr():
        reproduced = reproduce(run, ledger, folder, options.data_dir, options.cache_dir, Tolerance(*tolerance))
    verdict = reproduced.verdict
    if as_json:
        summary = {"id": run.row.id, "train_key": key, "verdict": verdict.verdict, "reproduced": verdict.reproduced}
        runs = [{"id": task.id, "seed": task.seed, **found.as_json()} for task, found in reproduced.verdicts]
        print_json(summary | {"into": None if into is None else str(into), "notes": run.notes, "runs": runs})
    else:
        _print_tables(reproduced)
    for line in verdict.reasons:
        log(f"bits are not promised: {line}" + (" differs" if " " not in line else ""))
    log(f"{run.row.id} seed {reproduced.verdicts[-1][0].seed}: {verdict.verdict}")
    if not verdict.reproduced or (strict and verdict.verdict != "same bits"):
        raise typer.Exit(1)


def _print_tables(reproduced: Reproduced) -> None:
    """The measures of each run, and for the row itself the parts of the capsule that differ."""
    for task, verdict in reproduced.verdicts:
        table = make_table(("what", "recorded", "again", ""), title=f"{task.name}: {verdict.verdict}")
        for one in verdict.measures:
            word = "equal" if one.equal else f"{one.differ} lines differ" if one.differ is not None else "near" if one.near else "differs"
            table.add_row(one.what, _cell(one.recorded), _cell(one.again), word)
        console().print(table)
    if reproduced.verdict.capsule:
        table = make_table(("part of the capsule", "recorded", "again", ""), title="what it was made with")
        for part in reproduced.verdict.capsule:
            word = "can change bits" if part.decides else "cannot change bits"
            table.add_row(part.part, _cell(part.recorded), _cell(part.again), word)
        console().print(table)


def _cell(value: Any) -> str:
    return cell(f"{value:.6g}" if isinstance(value, float) else "" if value is None else value)
