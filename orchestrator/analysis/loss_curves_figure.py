"""A panel for each comparison: a colour a row, training dashed, validation solid; the first cut of the rate, the baseline's best loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Records = Sequence[Mapping[str, Any]]
FIELDS = {"epochs": "epochs", "steps": "step", "seconds": "seconds"}
LABELS = {"epochs": "epochs", "steps": "updates", "seconds": "seconds"}
ACROSS = 3
FEW = 40
"""Points up to which a curve has a mark at each validation."""


def draw(records: Records, axis: str, figure: Figure) -> None:
    """records: measures and points of curves, as `loss_curves` makes them."""
    from matplotlib.lines import Line2D

    titles = list(dict.fromkeys(r["panel"] for r in records))
    across = min(ACROSS, len(titles))
    down = -(-len(titles) // across)
    figure.set_size_inches(6.4 if across == 1 else 4.0 * across, 0.9 + (3.9 if across == 1 else 3.1) * down)
    panels = figure.subplots(down, across, squeeze=False).flat
    cuts = goals = False
    for axes, title in zip(panels, titles, strict=False):
        own = [r for r in records if r["panel"] == title]
        said = _panel(axes, own, FIELDS[axis])
        cuts, goals = cuts or said[0], goals or said[1]
        axes.set_title(style.short(title, 60))
        axes.set_xlabel(LABELS[axis])
        axes.set_ylabel("nll per target token [nats]")
        axes.grid(alpha=0.3)
    for axes in list(panels):
        axes.set_axis_off()
    key = [
        Line2D([], [], color="0.25", linestyle="--", linewidth=1.2, label="training"),
        Line2D([], [], color="0.25", marker=".", linewidth=1.4, label="validation"),
    ]
    key += [Line2D([], [], color="0.25", linestyle=":", linewidth=1.0, label="first cut of the rate")] if cuts else []
    key += [
        Line2D(
            [], [], color="0.25", marker="*", markersize=9, markerfacecolor="white", linestyle="", label="reaches the baseline's best loss"
        )
    ] * goals
    figure.legend(handles=key, loc="outside lower center", ncols=len(key))
    figure.suptitle("Training and validation loss (Shen et al. 2018, Figs. 4 and 5)", fontsize=10)


def _panel(axes: Axes, records: Records, field: str) -> tuple[bool, bool]:
    """(is a cut in it, does a row reach the baseline's loss)."""
    from matplotlib.ticker import MaxNLocator

    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    cuts = goals = False
    for index, row in enumerate(rows):
        own = [r for r in records if (r["row"], r["seed"]) == row]
        colour, label = style.colour(index), style.short(own[0]["label"])
        for data, line in (("training", "--"), ("validation", "-")):
            points = [(r[field], r["value"]) for r in own if r["measure"] == "nll" and r["data"] == data and r[field] is not None]
            if not points:
                continue
            mark = "." if data == "validation" and len(points) <= FEW else "," if len(points) > 1 else "x"
            named = label if data == "validation" else None
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=line, linewidth=1.3, marker=mark, markersize=5, label=named)
        validations = {r["step"]: r for r in own if r["measure"] == "nll" and r["data"] == "validation" and r[field] is not None}
        for r in validations.values():
            if r["note"] == "first cut":
                axes.axvline(r[field], color=colour, linestyle=":", linewidth=1.0)
                cuts = True
        reached = next((r["step"] for r in own if r["measure"] == "updates_to_baseline_loss" and r["value"] is not None), None)
        if len(rows) > 1 and reached in validations:
            place = validations[reached]
            axes.plot([place[field]], [place["value"]], "*", color=colour, markerfacecolor="white", markersize=9, zorder=5)
            goals = True
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=axes.get_xlim()[1] > 4))
    axes.legend(loc="upper right", fontsize=8)
    return cuts, goals
