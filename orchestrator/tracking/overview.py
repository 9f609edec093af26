"""What a sweep's own run shows: the mean of each row, the best row's figures, and the table.

All of it is a function of the finished runs in the order of their ends, so that a store rebuilt from files has the same points.
"""

from collections import Counter
from collections.abc import Iterable
from statistics import fmean, stdev
from typing import NamedTuple

from orchestrator.safe_text import markdown
from orchestrator.tracking.history import Point
from orchestrator.tracking.source import FINAL, RunResult, SweepRecord

FIGURES = ("bleu", "chrf", "valid/nll", "tokens_per_second", "params")
HEADS = ("row", "seeds", "BLEU", "chrF", "valid nll", "tokens/s", "parameters", "status")
MAX_ROWS = 100
"""Rows with a metric of their own, and in the description of the sweep's run."""


class Shown(NamedTuple):
    """A run with a result. row: as in `row_names`."""

    row: str
    seed: int
    result: RunResult


def row_names(sweep: SweepRecord) -> dict[str, str]:
    """Address -> name in the UI: the row, then its table where the sweep has several."""
    tables = {_table(row.id) for row in sweep.rows}
    return {row.id: "/".join(row.id.split("/")[2:]) + (f" ({_table(row.id)})" if len(tables) > 1 else "") for row in sweep.rows}


def overview(sweep: SweepRecord, runs: Iterable[Shown], states: Iterable[str]) -> tuple[list[Point], dict[str, str]]:
    ended = sorted((run for run in runs if run.result.state in FINAL), key=lambda run: (run.result.ended, run.row, run.seed))
    names = list(dict.fromkeys(row_names(sweep).values()))
    by_row: dict[str, list[RunResult]] = {name: [] for name in names}
    points: list[Point] = []
    best = ""
    for number, run in enumerate(ended, 1):
        by_row.setdefault(run.row, []).append(run.result)
        means = {row: bleu for row, own in by_row.items() if (bleu := _mean(own, "bleu")) is not None}
        if means:
            best = max(means, key=lambda row: means[row])
            points += [Point(name, mean, run.result.ended, number) for name in FIGURES if (mean := _mean(by_row[best], name)) is not None]
        if run.row in means and len(names) <= MAX_ROWS:
            points.append(Point(f"rows/{run.row}", means[run.row], run.result.ended, number))
    lines, counts = [_line(row, own) for row, own in by_row.items()], Counter(states)
    status = ", ".join(f"{counts[state]} {state}" for state in dict.fromkeys((*FINAL, *counts)) if counts[state])
    tags = {"status": status, "mlflow.note.content": _markdown(sweep, lines)}
    return points, tags | ({"row": f"best: {best}"} if best else {})


def rounded(value: float) -> float:
    """To two decimal places, from 1,000 on to none."""
    return round(value, 2) if abs(value) < 1000 else float(round(value))


def words(state: str, reason: str) -> str:
    """The status of a run for people: `stopped by ASHA at step 75`, or the state alone."""
    return reason if state == "stopped" and reason else f"{state}: {reason}" if reason and state in ("diverged", "failed") else state


def _table(address: str) -> str:
    return "/".join(address.split("/")[:2])


def _mean(runs: list[RunResult], name: str) -> float | None:
    values = [run.figures[name] for run in runs if name in run.figures and (run.state == "done" or name != "bleu")]
    return rounded(fmean(values)) if values else None


def _line(row: str, runs: list[RunResult]) -> list[str]:
    bleu = [run.figures["bleu"] for run in runs if run.state == "done" and "bleu" in run.figures]
    spread = f" ± {stdev(bleu):.2f}" if len(bleu) > 1 else ""
    cells = [f"{fmean(bleu):.2f}{spread}" if bleu else ""]
    for name in FIGURES[1:]:
        mean = _mean(runs, name)
        cells.append("" if mean is None else f"{mean:,.0f}" if name in ("tokens_per_second", "params") else f"{mean:.2f}")
    notes = Counter(words(run.state, run.reason) for run in runs)
    status = "; ".join(note if len(runs) == 1 or len(notes) == 1 else f"{count} {note}" for note, count in notes.items())
    return [row, str(len(runs)), *cells, status or "not yet"]


def _markdown(sweep: SweepRecord, lines: list[list[str]]) -> str:
    rows = [HEADS, ["---"] + ["---:"] * 6 + ["---"], *(map(markdown, line) for line in lines[:MAX_ROWS])]
    more = f"\n\n{len(lines) - MAX_ROWS} rows more" if len(lines) > MAX_ROWS else ""
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"`{sweep.name}`: means over seeds, of finished runs\n\n{table}{more}"
