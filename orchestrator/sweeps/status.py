"""`status`: the sweeps of a ledger, the processes that drive them and the state of their runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from orchestrator.ledger import sweep_files
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import scorings_of
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.sweeps.asha import stopped_runs
from orchestrator.sweeps.forecast import ENDED, Forecast, RunProgress, duration, forecast, short_names, summary
from orchestrator.tables import cell, make_table

RECENT = 10
"""Sweeps that no longer run and are shown all the same."""
LAST = 20
"""Reports of a run of such a sweep that are read, besides its first: they have its last figures."""


def recent_sweeps(results: Path) -> tuple[list[Path], int]:
    """The files of the sweeps that run and of the last `RECENT` that were started, by name; and how many more sweeps there are."""
    paths = sorted(sweep_files.paths(results), key=lambda path: (_started(path), path), reverse=True)
    idle = [path for path in paths if SweepFile(path).driver is None]
    return sorted(set(paths) - set(idle[RECENT:])), len(idle[RECENT:])


def _started(path: Path) -> float:
    """When the sweep was started or resumed, which writes its file anew."""
    return path.stat().st_mtime if path.exists() else 0.0


def is_of_sweep(name: str, sweep: str, record: Mapping[str, Any]) -> bool:
    """Whether `name` is the sweep's, as `status` or the ledger has it, or the address of a table or row of it (`row:seed`)."""
    return name in (sweep, record.get("name")) or any(is_of_row(name, row["id"], row["seed"]) for row in record["rows"])


def is_of_row(name: str, row: str, seed: int) -> bool:
    """Whether `name` is the row, the row with its seed, or a part of the address before them."""
    return name == f"{row}:{seed}" or f"{row}/".startswith(f"{name}/")


def sweep_status(results: Path, *, name: str | None = None, paths: Iterable[Path] | None = None) -> list[dict[str, Any]]:
    """The sweeps of a ledger by name, each with its driver (null if none) and its rows as `RunProgress.as_json` gives them. Takes no locks.

    Args:
        name: only sweeps with this name, or of this table or row (see `is_of_sweep`).
        paths: only these files.
    """
    ledger = Ledger(results)
    sweeps = []
    for path in sweep_files.paths(results) if paths is None else paths:
        if (record := sweep_files.read_or_tell(path)) is None or (name is not None and not is_of_sweep(name, path.stem, record)):
            continue
        holder = SweepFile(path).driver
        stopped = stopped_runs(SweepFile(path).asha)
        runs = [_progress(ledger, row, stopped, driven=holder is not None) for row in record["rows"]]
        ahead = Forecast(None, None) if holder is None else forecast(runs)
        driver = None if holder is None else {name: holder.get(name) for name in ("pid", "host", "epoch")}
        about = {"sweep": path.stem, "name": record.get("name") or path.stem, "driver": driver}
        left = {"seconds_left": ahead.seconds, "device_seconds_left": ahead.device_seconds, "decoding_counted": ahead.decoding}
        sweeps.append(about | left | {"rows": [run.as_json() for run in runs]})
    return sweeps


def summary_of(sweep: dict[str, Any]) -> str:
    """Who drives the sweep, how many of its runs ended, and when it will end."""
    driver = sweep["driver"]
    state = "not running" if driver is None else f"driven by process {driver['pid']} on {driver['host']}"
    statuses = ["waiting" if row["status"] == "new" else row["status"] for row in sweep["rows"]]
    ahead = Forecast(*(sweep[name] for name in ("seconds_left", "device_seconds_left", "decoding_counted")))
    told = summary(statuses, ahead) if driver is not None else summary(statuses, ahead).partition(";")[0]
    return f"{sweep['sweep']}: {state}; {told}"


def sweep_table(sweep: dict[str, Any]) -> Table:
    return runs_table(sweep["rows"], summary_of(sweep))


def runs_table(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> Table:
    """A line for each run, from records as `RunProgress.as_json` gives them."""
    numeric = ("seed", "steps", "valid", "tok/s", "BLEU", "left")
    table = make_table(("row", "seed", "status", *numeric[1:]), title=title, numeric=numeric)
    short = short_names([row["id"] for row in rows])
    for row in rows:
        steps = f"{row['steps']}/{row['total_steps']}" if row["total_steps"] and row["status"] not in ENDED else str(row["steps"])
        left = "" if row["seconds_left"] is None else duration(row["seconds_left"])
        figures = [_number(row[name], form) for name, form in (("valid_nll", ".2f"), ("tokens_per_second", ",.0f"), ("bleu", ".2f"))]
        table.add_row(cell(short[row["id"]]), str(row["seed"]), row["status"], steps, *figures, left)
    return table


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def _progress(ledger: Ledger, row: dict[str, Any], stopped: Mapping[str, int], *, driven: bool) -> RunProgress:
    """Reads one run. Without files it is `new`. The speed of a run is needed only while its sweep is driven."""
    run = RunProgress(row["id"], row["seed"], scorings_of(row), row.get("failed_below"))
    run.total = int(((row.get("spec") or {}).get("train") or {}).get("max_steps") or 0)
    for line in ledger.history(run.train_key, None if driven else LAST):
        run.add(line)
    run.look(ledger, stopped)
    if driven:
        run.learn(ledger)
    if run.status == "waiting":
        run.status = "new"
    return run
