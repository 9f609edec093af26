"""Accuracy by probing task: a filled mark for ours, a hollow one for the paper's, a grey line for the commonest label's share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD = 0.7
"""Of a task's width, which its rows share."""


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """A column a task, a colour a row."""
    axes = figure.subplots()
    columns = list(dict.fromkeys(r["column"] for r in records))
    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    figure.set_figwidth(max(7.0, 0.9 * len(columns) + 1.0))
    for index, row in enumerate(rows):
        own = [r for r in records if (r["row"], r["seed"]) == row]
        offset = SPREAD * ((index + 0.5) / len(rows) - 0.5)
        look: dict[str, Any] = {"marker": style.marker(index), "color": style.colour(index), "linestyle": "none", "markersize": 5}
        places = [columns.index(r["column"]) + offset for r in own]
        axes.plot(places, [r["accuracy"] for r in own], label=style.short(own[0]["label"]), **look)
        known = [(place, r["paper"]) for place, r in zip(places, own, strict=True) if r["paper"] is not None]
        if known:
            axes.plot(*zip(*known, strict=True), **look, markerfacecolor="none")
    for place, column in enumerate(columns):
        lows = [r["majority"] for r in records if r["column"] == column]
        label = "commonest label" if place == 0 else "_"
        axes.hlines(sum(lows) / len(lows), place - 0.45, place + 0.45, color="0.6", linewidth=1.0, label=label)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylabel("accuracy [%]")
    paper = "; hollow: the paper" if any(r["paper"] is not None for r in records) else ""
    axes.set_title(f"Probing tasks (Hao et al. 2019, Table 5{paper})")
    axes.grid(axis="y", alpha=0.3)
    style.from_zero(axes)
    style.legend(figure, axes)
