"""Four panels: BLEU above, losses below; training data left, validation right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    ("bleu", "training"): "(a) BLEU on sampled training pairs",
    ("bleu", "validation"): "(b) BLEU on the validation set",
    ("nll", "training"): "(c) training loss",
    ("nll", "validation"): "(d) validation loss",
}


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """A colour a row. One point a row: bars; more: curves by update. Without losses the lower panels are left out."""
    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    measures = [m for m in ("bleu", "nll") if any(r["measure"] == m for r in records)]
    bars = (
        max(sum((r["row"], r["seed"]) == row and r["data"] == "training" and r["measure"] == "bleu" for r in records) for row in rows) == 1
    )
    top = max(2.2, 0.9 + 0.3 * len(rows)) if bars else 3.2
    figure.set_size_inches(9.0, top + (3.2 if "nll" in measures else 0.0))
    panels = figure.subplots(len(measures), 2, squeeze=False, height_ratios=[top if m == "bleu" else 3.2 for m in measures])
    for line, measure in zip(panels, measures, strict=True):
        for axes, data in zip(line, ("training", "validation"), strict=True):
            own = [r for r in records if (r["measure"], r["data"]) == (measure, data)]
            (_bars if measure == "bleu" and bars else _curves)(axes, own, rows)
            axes.set_title(TITLES[measure, data])
            axes.grid(axis="x" if measure == "bleu" and bars else "both", alpha=0.3)
    if bars:
        panels[0, 1].set_yticklabels([])
    handles, labels = panels[-1, 0].get_legend_handles_labels()
    if not handles:
        handles, labels = panels[-1, 1].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(handles)))
    figure.suptitle("Degradation of deep networks (Wei et al. 2020, Fig. 2)", fontsize=10)


def _bars(axes: Axes, records: Sequence[Mapping[str, Any]], rows: Sequence[Any]) -> None:
    values = {(r["row"], r["seed"]): r for r in records}
    shown = [row for row in rows if row in values]
    places = range(len(shown))
    axes.barh(places, [values[row]["value"] for row in shown], color=[style.colour(rows.index(row)) for row in shown], height=0.65)
    axes.set_yticks(places, [style.short(values[row]["label"], 32) for row in shown])
    axes.invert_yaxis()
    for place, row in zip(places, shown, strict=True):
        axes.text(values[row]["value"], place, f" {values[row]['value']:.2f}", va="center", fontsize=8)
    axes.set_xlim(0.0, max(1.0, 1.18 * max((values[row]["value"] for row in shown), default=1.0)))
    axes.set_xlabel("BLEU [%]")


def _curves(axes: Axes, records: Sequence[Mapping[str, Any]], rows: Sequence[Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    for index, row in enumerate(rows):
        own = [r for r in records if (r["row"], r["seed"]) == row]
        if own:
            mark = style.marker(index) if len(own) <= 30 else None
            steps, values = [r["step"] for r in own], [r["value"] for r in own]
            label = style.short(own[0]["label"])
            axes.plot(steps, values, color=style.colour(index), marker=mark, markersize=4, linewidth=1.2, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("updates")
    axes.set_ylabel("BLEU [%]" if records and records[0]["measure"] == "bleu" else "nll per target token")
