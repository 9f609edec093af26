"""A table as text cells, alike for every format."""

from __future__ import annotations

from typing import Any

from orchestrator.report.table import OURS, Line, Table

_TITLES = {
    "params": "params",
    "params_added": "params added",
    "bleu": "BLEU",
    "delta": "delta",
    "bleu_spread": "spread",
    "tokens_per_second": "tokens/s",
    "sentences_per_second": "sentences/s",
}
_MEANS = ("bleu", "delta", "bleu_spread")


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """(headers, rows). A column that is both reported and ours takes two; the last column says what became of the row."""
    reported = [c for c in table.columns if any(line.reported.get(c) is not None for line in table.rows)]
    measured = [c for c in table.columns if c in OURS and any((line.ours or {}).get(c) is not None for line in table.rows)]
    both = [c for c in table.columns if c in reported or c in measured]
    headers, picks = ["row", "system"], []
    for column in both:
        title = _TITLES.get(column, column.replace("_", " "))
        if column in reported:
            headers.append(f"{title} (paper)")
            picks.append((column, False))
        if column in measured:
            headers.append(f"{title} (ours)" if column in reported else title)
            picks.append((column, True))
    rows = [[_short(line, table), line.label, *(_cell(line, column, ours) for column, ours in picks), state(line)] for line in table.rows]
    return [*headers, "status"], rows


def state(line: Line) -> str:
    """`done`, `not run`, `quoted`, or why there is no figure."""
    if line.kind != "run":
        return line.kind
    if line.ours is None:
        return "not run"
    if line.ours["status"] != "done":
        return str(line.ours["reason"])
    count, unfinished = len(line.ours["seeds"]), line.ours["unfinished"]
    note = "done" if count == 1 else f"done, {count} seeds"
    return note + "".join(f"; seed {seed} {why}" for seed, why in unfinished.items())


def figure(column: str, value: Any) -> str:
    """One of our numbers: 88.0M, 27.64, +0.30, 1,234."""
    if value is None:
        return ""
    if column in ("params", "params_added"):
        sign = "+" if column == "params_added" else ""
        return f"{sign}{value / 1e6:.2f}M" if abs(value) >= 1e5 or value == 0 else f"{sign}{value:,}"
    if column in _MEANS:
        return f"{value:+.2f}" if column == "delta" else f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _cell(line: Line, column: str, ours: bool) -> str:
    if ours:
        return figure(column, (line.ours or {}).get(column))
    value = line.reported.get(column)
    if value is None:
        return ""
    if isinstance(value, float) and column in _MEANS:
        return f"{value:+.2f}" if column == "delta" else f"{value:.2f}"
    return str(value)


def _short(line: Line, table: Table) -> str:
    return line.id.removeprefix(f"{table.table}/")
