"""The figure of `loss-curves`: one panel per comparison and one colour per row, training dashed and validation solid.

The first cut of the learning rate and the point that reaches the baseline's best loss are marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from orchestrator.analysis import figures
from orchestrator.analysis.base import Records, by_row, group_by

FIELDS = {"epochs": "epochs", "steps": "step", "seconds": "seconds"}
LABELS = {"epochs": "epochs", "steps": "updates", "seconds": "seconds"}
PANELS_PER_LINE = 3
MOST_MARKERS = 40


def draw(records: Records, axis: str, figure: Figure) -> None:
    """Draws the records (measures and points of curves) of the kind `loss-curves`."""
    groups = group_by(records, "panel")
    names = legend_names(records)
    across = min(PANELS_PER_LINE, len(groups))
    down = -(-len(groups) // across)
    handles = _legend_handles(records, list(dict.fromkeys(names.values())))
    columns = min(3, len(handles))
    legend_height = 0.7 + 0.22 * (-(-len(handles) // columns))
    figure.set_size_inches(6.4 if across == 1 else 4.0 * across, legend_height + (3.6 if across == 1 else 3.1) * down)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, (title, own) in zip(panels, groups.items(), strict=False):
        _draw_panel(axes, own, names, FIELDS[axis])
        axes.set(title=figures.short(title, 60), xlabel=LABELS[axis])
        axes.grid(alpha=0.3)
    for axes in panels[::across]:
        axes.set_ylabel("nll per target token [nats]")
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)
    figure.suptitle("Training and validation loss (Shen et al. 2018, Figs. 4 and 5)", fontsize=10)


def legend_names(records: Records) -> dict[tuple[str, int], str]:
    """Maps (row, seed) to its label up to the first comma if that distinguishes the rows of every panel, else to the whole label."""
    rows = {(r["panel"], r["row"], r["seed"]): r["label"] for r in records}
    heads = {row: label.partition(",")[0] for row, label in rows.items()}
    distinct = len({(row[0], head) for row, head in heads.items()}) == len(rows)
    return {(row[1], row[2]): figures.short((heads if distinct else rows)[row], 48) for row in rows}


def _legend_handles(records: Records, names: Sequence[str]) -> list[Line2D]:
    """Returns legend entries for the rows (by colour), the curves (by style) and the marks that occur."""
    handles = [Line2D([], [], color=figures.colour(i), linewidth=2.5, label=name) for i, name in enumerate(names)]
    handles.append(Line2D([], [], color="0.25", linestyle="--", linewidth=1.3, label="training"))
    handles.append(Line2D([], [], color="0.25", marker=".", linewidth=1.3, label="validation"))
    if any(r["measure"] == "nll" and r["note"] == "first cut" for r in records):
        handles.append(Line2D([], [], color="0.25", linestyle=":", linewidth=1.2, label="first cut of the rate"))
    if len(by_row(records)) > 1:
        label = "at the baseline's best loss"
        handles.append(Line2D([], [], color="0.25", marker="*", markersize=9, markerfacecolor="white", linestyle="", label=label))
    return handles


def _draw_panel(axes: Axes, records: Records, names: Mapping[tuple[str, int], str], field: str) -> None:
    rows = by_row(records)
    order = list(dict.fromkeys(names.values()))
    for row, own in rows.items():
        colour = figures.colour(order.index(names[row]))
        points = [r for r in own if r["measure"] == "nll" and r[field] is not None]
        for data, curve in group_by(points, "data").items():
            marked = len(curve) == 1 or (data == "validation" and len(curve) <= MOST_MARKERS)
            x, y = [r[field] for r in curve], [r["value"] for r in curve]
            line, mark = "--" if data == "training" else "-", "." if marked else None
            axes.plot(x, y, color=colour, linestyle=line, marker=mark, markersize=5, linewidth=1.3)
        reached = next((r["step"] for r in own if r["measure"] == "updates_to_baseline_loss"), None)
        for r in points:
            if r["data"] == "validation" and r["note"] == "first cut":
                axes.axvline(r[field], color=colour, linestyle=":", linewidth=1.2)
            if r["data"] == "validation" and len(rows) > 1 and r["step"] == reached:
                axes.plot([r[field]], [r["value"]], "*", color=colour, markerfacecolor="white", markersize=9, zorder=5)
    axes.set_xlim(left=0)
    figures.integer_ticks(axes, 7, integer=axes.get_xlim()[1] > 4)
