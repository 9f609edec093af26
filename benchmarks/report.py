"""Figures and tables of a benchmark. Ratios are medians over rounds of the ratio within a round, so that slow minutes cancel out."""

import statistics
import sys
from collections.abc import Sequence
from typing import Any

from contenders import LEGEND
from driver import Outcome
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

OURS = ("ours", "ours, off")


def line(outcome: Outcome, unit: str) -> dict[str, Any]:
    """Returns the figures of one row. `unit` is counted per second: `tokens` or `sentences`."""
    row = {"contender": outcome.row.name} | {k: v for k, v in outcome.row.options.items() if k not in ("fast", "matmul")}
    row |= {"rounds": len(outcome.rounds)}
    if outcome.problem:
        row["problem"] = outcome.problem
    if outcome.rounds:
        rates = [r[unit] / r["seconds"] for r in outcome.rounds]
        row["per_second"] = {"median": _short(statistics.median(rates)), "min": _short(min(rates)), "max": _short(max(rates))}
        row["seconds"] = [round(r["seconds"], 4) for r in outcome.rounds]
    return row | {k: outcome.about[k] for k in ("version", "params") if k in outcome.about}


def ratio(outcome: Outcome, base: Outcome | None, unit: str) -> float | None:
    """Returns the speed relative to `base` over the rounds that both finished, or None without any."""
    if base is None or not outcome.rounds or not base.rounds:
        return None
    pairs = zip(outcome.rounds, base.rounds, strict=False)
    return round(statistics.median((a[unit] / a["seconds"]) / (b[unit] / b["seconds"]) for a, b in pairs), 3)


def find(outcomes: Sequence[Outcome], name: str, **options: Any) -> Outcome | None:
    """Returns the row with this name and these options if it has figures, else None."""
    for outcome in outcomes:
        if outcome.row.name == name and outcome.rounds and options.items() <= outcome.row.options.items():
            return outcome
    return None


def fastest_peer(outcomes: Sequence[Outcome], unit: str, *, mended: bool = True, **options: Any) -> Outcome | None:
    """Returns the fastest peer row with these options, or None. mended: include rows whose matrix products were sped up."""
    peers = [
        o
        for o in outcomes
        if o.rounds
        and o.row.program.name.partition("+")[0] not in ("ours", "plain")
        and options.items() <= o.row.options.items()
        and (mended or "+" not in o.row.name)
    ]
    return max(peers, key=lambda o: statistics.median(r[unit] / r["seconds"] for r in o.rounds), default=None)


def legend(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Returns the meaning of the names and the differences of each contender, for the contenders present."""
    names = {o.row.name for o in outcomes}
    texts = {k: v for k, v in LEGEND.items() if not k.startswith("+") or any(k in name for name in names)}
    return texts | {o.row.name.partition("+")[0]: o.about["differs"] for o in outcomes if "differs" in o.about}


def table(rows: Sequence[dict[str, Any]], columns: dict[str, Any]) -> Table:
    """Builds a table. `columns` maps headers to functions of a row. Rows with unsupported precisions are only in the JSON."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    rows = [row for row in rows if not _not_offered(row)]
    for i, header in enumerate(columns):
        shown.add_column(header, justify="left" if i == 0 else "right", no_wrap=i == 0)
    shown.add_column("")
    for row in rows:
        cells = []
        for get in columns.values():
            try:
                value = get(row)
            except KeyError:  # a row without figures
                value = ""
            cells.append("" if value is None else str(value))
        shown.add_row(*cells, "" if "problem" not in row else "stopped" if row.get("rounds") else "not measured")
    return shown


def _not_offered(row: dict[str, Any]) -> bool:
    return row.get("problem", "").startswith("not offered")


def spread(row: dict[str, Any]) -> str:
    return f"{row['per_second']['min']:,}..{row['per_second']['max']:,}"


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def show(title: str, shown: Table, rows: Sequence[dict[str, Any]], notes: dict[str, str]) -> None:
    """Prints title, table, reasons for missing figures and notes to stdout, 150 columns wide if that is not a terminal."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 150, highlight=False)
    console.print(title)
    console.print(shown)
    reasons = {f"not measured, {r['contender']}": r["problem"] for r in rows if "problem" in r and not _not_offered(r)}
    for name, text in (reasons | notes).items():
        console.print(f"  {name}: {text}", style="dim", soft_wrap=True)


def progress_bar(total: int) -> tuple[Progress, Any]:
    """Returns (progress bar on stderr, function for `compete`)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=sys.stderr), disable=not sys.stderr.isatty())
    task = bar.add_task("start", total=total)
    lines = not sys.stderr.isatty()

    def step(text: str, done: int) -> None:
        bar.update(task, completed=done, description=text)
        if lines:
            print(f"[{done}/{total}] {text}", file=sys.stderr, flush=True)

    return bar, step


def _short(value: float) -> float:
    return round(value) if value >= 1000 else round(value, 1)
