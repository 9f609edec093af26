"""The figure of `loss-curves`: one panel per comparison, one colour a model, training dashed and validation solid with markers.

The first cut of the learning rate and the point that reaches the baseline's best loss are marked.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from orchestrator.analysis import figures
from orchestrator.analysis.base import Records, by_row, group_by
from orchestrator.analysis.figures import Style

FIELDS = {"epochs": "epochs", "steps": "step", "seconds": "seconds"}
LABELS = {"epochs": "epochs", "steps": "updates", "seconds": "seconds"}


def draw(records: Records, axis: str, figure: Figure) -> None:
    """Draws the records (measures and points of curves) of the kind `loss-curves`."""
    groups = group_by(records, "panel")
    styles = legend_styles(records)
    panels = figures.panels(figure, len(groups), height=2.3)
    for axes, (title, own) in zip(panels, groups.items(), strict=True):
        _draw_panel(axes, own, styles, FIELDS[axis])
        seeds = {r["seed"] for r in own}
        title += f", seed {seeds.pop()}" if len(seeds) == 1 else ""
        axes.set(title=figures.short(title, 60), xlabel=LABELS[axis])
        axes.grid()
    panels[0].set_ylabel("nll per target token [nats]")
    figures.legend(figure, [*figures.handles(styles), *_marks(records)])


def legend_styles(records: Records) -> dict[tuple[str, int], Style]:
    """Labels are cut at the first comma if that distinguishes the rows of every panel; rows of two panels may then share a style."""
    rows = {(r["panel"], r["row"], r["seed"]): figures.model_of(r["label"])[0] for r in records}
    if len({(panel, model) for (panel, _, _), model in rows.items()}) < len(rows):
        return figures.styles(records)
    of_models = figures.styles([{"row": model, "seed": 0, "label": model} for model in rows.values()])
    return {(row, seed): of_models[model, 0] for (_, row, seed), model in rows.items()}


def _marks(records: Records) -> list[Line2D]:
    """Returns legend entries for the curves (by style) and the marks that occur."""
    entries = [Line2D([], [], color="0.25", linestyle="--", label="training"), Line2D([], [], color="0.25", label="validation")]
    if any(r["measure"] == "nll" and r["note"] == "first cut" for r in records):
        entries.append(Line2D([], [], color="0.25", linestyle=":", label="first cut of the rate"))
    if len(by_row(records)) > 1:
        label = "baseline's best loss"
        entries.append(Line2D([], [], color="0.25", marker="*", markersize=8, markerfacecolor="white", linestyle="", label=label))
    return entries


def _draw_panel(axes: Axes, records: Records, styles: Mapping[tuple[str, int], Style], field: str) -> None:
    rows = by_row(records)
    for row, own in rows.items():
        style = styles[row]
        points = [r for r in own if r["measure"] == "nll" and r[field] is not None]
        for data, curve in group_by(points, "data").items():
            marked = len(curve) == 1 or (data == "validation" and len(curve) <= figures.MOST_MARKERS)
            x, y = [r[field] for r in curve], [r["value"] for r in curve]
            line = style.line("--", linewidth=0.9) if data == "training" else style.line("-")
            axes.plot(x, y, **line | {"marker": style.marker if marked else None})
        reached = next((r["step"] for r in own if r["measure"] == "updates_to_baseline_loss"), None)
        for r in points:
            if r["data"] == "validation" and r["note"] == "first cut":
                axes.axvline(r[field], color=style.colour, linestyle=":")
            if r["data"] == "validation" and len(rows) > 1 and r["step"] == reached:
                axes.plot([r[field]], [r["value"]], "*", color=style.colour, markerfacecolor="white", markersize=8, zorder=5)
    figures.integer_ticks(axes, integer=axes.get_xlim()[1] > 4)
