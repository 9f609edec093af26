"""`status`: the sweeps of a ledger, the processes that drive them and the state of their runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from orchestrator.ledger.outcome import outcome_of
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import owner
from orchestrator.ledger.sweep_files import BESIDE, rows_of
from orchestrator.safe_text import log
from orchestrator.specs.positions import display
from orchestrator.tables import cell, make_table


def sweep_status(results: Path, warn: Callable[[str], None] = log) -> list[dict[str, Any]]:
    """[{"sweep", "name", "driver": {pid, host, ..}|null, "rows": [{"id", "seed", "status", "steps", "key"}]}], by name. Takes no locks.

    warn: called with a line for each file that is not a valid sweep file.
    """
    ledger = Ledger(results)
    sweeps = []
    for path in sorted((results / "sweeps").glob("*.json")):
        if path.name.endswith(BESIDE) or path.name.startswith("."):
            continue
        try:
            record = json.loads(path.read_bytes())
            rows = [_row(ledger, row) for row in rows_of(record)]
        except (OSError, ValueError, RecursionError) as error:
            warn(f"warning: {display(path)}: {_reason(error)}; the sweep is passed over")
            continue
        holder = owner(path.with_suffix(".lock"))
        driver = None if holder is None else {name: holder.get(name) for name in ("pid", "host", "epoch")}
        sweeps.append({"sweep": path.stem, "name": record.get("name") or path.stem, "driver": driver, "rows": rows})
    return sweeps


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror})"
    no_json = isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError))
    return "holds no JSON; expected what a sweep writes" if no_json else str(error)


def sweep_table(sweep: dict[str, Any]) -> Table:
    driver = sweep["driver"]
    state = "not running" if driver is None else f"driven by process {driver['pid']} on {driver['host']}"
    columns = ("row", "seed", "status", "steps", "train key")
    table = make_table(columns, title=f"{sweep['sweep']}: {state}", numeric=("seed", "steps"))
    for row in sweep["rows"]:
        table.add_row(cell(row["id"]), str(row["seed"]), row["status"], str(row["steps"]), (row["key"] or "")[:16])
    return table


def _row(ledger: Ledger, row: dict[str, Any]) -> dict[str, Any]:
    key = row["keys"]["train"]
    record = ledger.read_train(key)
    if record is None:
        history = ledger.history(key)
        steps = history[-1].get("step", 0) if history else 0
        status = "running" if owner(ledger.run_dir(key) / "lock") is not None else "interrupted" if history else "new"
    else:
        steps = record.get("steps") or 0
        status = outcome_of(record, (ledger.read_score(key, score) for score in _score_keys(row)), row.get("failed_below")).status
    return {"id": row["id"], "seed": row["seed"], "status": status, "steps": steps, "key": key}


def _score_keys(row: dict[str, Any]) -> list[str]:
    """Score keys of the row's own scoring and of its others (files of older sweeps have none)."""
    scorings = (row["keys"], *(other["keys"] for other in (row.get("also") or {}).values()))
    return [keys["score"] for keys in scorings if keys.get("score") is not None]
