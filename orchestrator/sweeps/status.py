"""`status`: the sweeps of a ledger, the processes that drive them and the state of their runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from orchestrator.ledger import sweep_files
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.sweep_files import SweepFile, SweepRow
from orchestrator.sweeps.asha import stopped_runs
from orchestrator.sweeps.forecast import ENDED, PAUSED, WORKING, Forecast, RunProgress, duration, forecast, short_names, summary
from orchestrator.tables import cell, make_table

RECENT = 10
"""Sweeps that no longer run and are shown all the same."""
MOST = 50
"""Runs of a sweep that are shown unasked."""


@dataclass(frozen=True)
class SweepStatus:
    """One sweep. file: its file's name without the ending. driver: the live process that drives it. ahead: of the runs that it drives."""

    file: str
    name: str
    driver: dict[str, Any] | None
    ahead: Forecast
    runs: list[RunProgress]

    def as_json(self) -> dict[str, Any]:
        left = {"seconds_left": self.ahead.seconds, "device_seconds_left": self.ahead.device_seconds}
        return {"sweep": self.file, "name": self.name, "driver": self.driver} | left | {"rows": [run.as_json() for run in self.runs]}

    @property
    def summary(self) -> str:
        """Who drives the sweep, how many of its runs ended, and when it will end."""
        told = summary(["waiting" if run.status == "new" else run.status for run in self.runs], self.ahead)
        if self.driver is None:
            return f"{self.file}: not running; {told.partition(';')[0]}"
        return f"{self.file}: driven by process {self.driver['pid']} on {self.driver['host']}; {told}"


def recent_sweeps(results: Path) -> tuple[list[Path], int]:
    """The files of the sweeps that run and of the last `RECENT` that were started, by name; and how many more sweeps there are."""
    started = {path: path.stat().st_mtime if path.exists() else 0.0 for path in sweep_files.paths(results)}  # a start writes the file anew
    paths = sorted(started, key=lambda path: (started[path], path), reverse=True)
    idle = [path for path in paths if SweepFile(path).driver is None]
    return sorted(set(paths) - set(idle[RECENT:])), len(idle[RECENT:])


def is_of_sweep(name: str, sweep: str, record: Mapping[str, Any]) -> bool:
    """Returns whether `name` is the name of the sweep (in `status` or in the ledger), or of one of its tables or rows (`row:seed`)."""
    inside = (name == f"{row.id}:{row.seed}" or f"{row.id}/".startswith(f"{name}/") for row in sweep_files.rows_of(record))
    return name in (sweep, record.get("name")) or any(inside)


def sweep_status(ledger: Ledger, *, name: str | None = None, paths: Iterable[Path] | None = None) -> list[SweepStatus]:
    """The sweeps of a ledger by name. Takes no locks. name: only sweeps that `is_of_sweep` gives this name. paths: only these files."""
    sweeps = []
    for path in sweep_files.paths(ledger.root) if paths is None else paths:
        if (record := sweep_files.read_or_tell(path)) is None or (name is not None and not is_of_sweep(name, path.stem, record)):
            continue
        holder = SweepFile(path).driver
        stopped = stopped_runs(SweepFile(path).asha)
        runs = [_progress(ledger, row, stopped) for row in sweep_files.rows_of(record)]
        scheduler = record.get("scheduler") or {}
        if scheduler.get("rungs") and scheduler.get("kind") != "asha":
            _pause(ledger, runs)
        ahead = Forecast(None, None) if holder is None else forecast(runs[: len(record["rows"])])
        driver = None if holder is None else {name: holder.get(name) for name in ("pid", "host", "epoch")}
        sweeps.append(SweepStatus(path.stem, record.get("name") or path.stem, driver, ahead, runs))
    return sweeps


def first_to_see(runs: Sequence[RunProgress]) -> list[RunProgress]:
    """Returns at most `MOST` of a sweep's runs: failed and running ones, then other started ones, then the rest."""
    ranks = dict.fromkeys((*WORKING, "failed", "diverged"), 0) | {"new": 2}
    chosen = sorted(range(len(runs)), key=lambda i: ranks.get(runs[i].status, 1))[:MOST]
    return [runs[i] for i in sorted(chosen)]


def runs_table(runs: Sequence[RunProgress], title: str | None = None) -> Table:
    numeric = ("seed", "steps", "valid", "tok/s", "BLEU", "left")
    table = make_table(("row", "seed", "status", *numeric[1:]), title=title, numeric=numeric)
    short = short_names([run.row for run in runs])
    for run in runs:
        steps = f"{run.steps}/{run.total}" if run.total and run.status not in ENDED else str(run.steps)
        left = "" if run.seconds_left is None else duration(run.seconds_left)
        figures = ((run.figures.get("valid"), ".2f"), (run.figures.get("tok/s"), ",.0f"), (run.score, ".2f"))
        shown = ["" if value is None else f"{value:{form}}" for value, form in figures]
        table.add_row(cell(short[run.row]), str(run.seed), run.status, steps, *shown, left)
    return table


def _pause(ledger: Ledger, trials: Sequence[RunProgress]) -> None:
    """Marks stopped trials as paused while their search has no record: they wait at a rung."""
    records = [record for trial in trials for record in ledger.records(trial.train_key, "search")]
    searched = {key for record in records for trial in record["trials"] for key in trial["runs"].values()}
    for trial in trials:
        if trial.status == "stopped" and trial.train_key not in searched:
            trial.status = PAUSED


def _progress(ledger: Ledger, row: SweepRow, stopped: Mapping[str, int]) -> RunProgress:
    """Reads one run. Without files it is `new`."""
    run = RunProgress(row.id, row.seed, row.scorings, row.record.get("failed_below"), row.record.get("devices", 1))
    run.total = int(((row.record.get("spec") or {}).get("train") or {}).get("max_steps") or 0)
    for line in ledger.history(run.train_key):
        run.add(line)
    run.look(ledger, stopped)
    if run.status == "waiting":
        run.status = "new"
    return run
