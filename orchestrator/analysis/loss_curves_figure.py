"""A panel for each comparison: a colour a row, training dashed, validation solid; the first cut of the rate, the baseline's best loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Records = Sequence[Mapping[str, Any]]
FIELDS = {"epochs": "epochs", "steps": "step", "seconds": "seconds"}
LABELS = {"epochs": "epochs", "steps": "updates", "seconds": "seconds"}
ACROSS = 3
FEW = 40
"""Validations up to which each of them has a mark."""


def draw(records: Records, axis: str, figure: Figure) -> None:
    """records: measures and points of curves, as `loss_curves` makes them."""
    titles = list(dict.fromkeys(r["panel"] for r in records))
    names = named(records)
    across = min(ACROSS, len(titles))
    down = -(-len(titles) // across)
    key = _key(records, list(dict.fromkeys(names.values())))
    columns = min(3, len(key))
    figure.set_size_inches(
        6.4 if across == 1 else 4.0 * across, 0.7 + 0.22 * (-(-len(key) // columns)) + (3.6 if across == 1 else 3.1) * down
    )
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, title in zip(panels, titles, strict=False):
        _panel(axes, [r for r in records if r["panel"] == title], names, FIELDS[axis])
        axes.set_title(style.short(title, 60))
        axes.set_xlabel(LABELS[axis])
        axes.grid(alpha=0.3)
    for axes in panels[::across]:
        axes.set_ylabel("nll per target token [nats]")
    for axes in panels[len(titles) :]:
        axes.set_axis_off()
    figure.legend(handles=key, loc="outside lower center", ncols=columns)
    figure.suptitle("Training and validation loss (Shen et al. 2018, Figs. 4 and 5)", fontsize=10)


def named(records: Records) -> dict[tuple[str, int], str]:
    """Of each row a name for the legend: its label up to the first comma where that tells the rows of every panel apart, else all of it."""
    rows = {(r["panel"], r["row"], r["seed"]): r["label"] for r in records}
    heads = {row: label.partition(",")[0] for row, label in rows.items()}
    apart = len({(row[0], head) for row, head in heads.items()}) == len(rows)
    return {(row[1], row[2]): style.short((heads if apart else rows)[row], 48) for row in rows}


def _key(records: Records, names: Sequence[str]) -> list[Line2D]:
    """Of the legend: rows by colour, curves by style, and the marks that there are."""
    from matplotlib.lines import Line2D

    key = [Line2D([], [], color=style.colour(i), linewidth=2.5, label=name) for i, name in enumerate(names)]
    key.append(Line2D([], [], color="0.25", linestyle="--", linewidth=1.3, label="training"))
    key.append(Line2D([], [], color="0.25", marker=".", linewidth=1.3, label="validation"))
    if any(r["measure"] == "nll" and r["note"] == "first cut" for r in records):
        key.append(Line2D([], [], color="0.25", linestyle=":", linewidth=1.2, label="first cut of the rate"))
    if len({(r["row"], r["seed"]) for r in records}) > 1:
        label = "at the baseline's best loss"
        key.append(Line2D([], [], color="0.25", marker="*", markersize=9, markerfacecolor="white", linestyle="", label=label))
    return key


def _panel(axes: Axes, records: Records, names: Mapping[tuple[str, int], str], field: str) -> None:
    from matplotlib.ticker import MaxNLocator

    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    order = list(dict.fromkeys(names.values()))
    for row in rows:
        own = [r for r in records if (r["row"], r["seed"]) == row]
        colour = style.colour(order.index(names[row]))
        curves = {
            data: [r for r in own if r["measure"] == "nll" and r["data"] == data and r[field] is not None]
            for data in ("training", "validation")
        }
        for data, points in curves.items():
            if points:
                few = len(points) == 1 or (data == "validation" and len(points) <= FEW)
                x, y = [r[field] for r in points], [r["value"] for r in points]
                line, mark = "--" if data == "training" else "-", "." if few else None
                axes.plot(x, y, color=colour, linestyle=line, marker=mark, markersize=5, linewidth=1.3)
        reached = next((r["step"] for r in own if r["measure"] == "updates_to_baseline_loss"), None)
        for r in curves["validation"]:
            if r["note"] == "first cut":
                axes.axvline(r[field], color=colour, linestyle=":", linewidth=1.2)
            if len(rows) > 1 and r["step"] == reached:
                axes.plot([r[field]], [r["value"]], "*", color=colour, markerfacecolor="white", markersize=9, zorder=5)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=axes.get_xlim()[1] > 4))
