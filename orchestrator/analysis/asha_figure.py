"""The figure of `asha`: validation curves of the full grid with each run's survival, and what ASHA spends and keeps."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from orchestrator.analysis import figures
from orchestrator.analysis.asha_measures import same_rungs, shares
from orchestrator.analysis.base import Records, by_row

MEASURES = {"share": ("o", "compute (bar: 90 % of orders)"), "best_kept": ("s", "best run kept")}
GREYS = ("0.0", "0.45", "0.7")
"""Of the measures: the colours are of the models."""


def draw(records: Records, metric: str, top: int, figure: Figure) -> None:
    """Draws the curves above (left in a page's width), and a line of percentages per reduction factor beside them."""
    real = any(r["measure"] == "survived_real" for r in records)
    left, right = figures.panels(figure, 2, height=2.6, most=2, width_ratios=[1.4, 1.0] if figure.get_figwidth() > figures.COLUMN else None)
    _draw_curves(left, records, metric, "survived_real" if real else "survived")
    _draw_measures(right, records, top)
    rows, measures = left.get_legend_handles_labels()[0], right.get_legend_handles_labels()[0]
    figures.legend(figure, [*rows, *measures])


def _draw_curves(axes: Axes, records: Records, metric: str, measure: str) -> None:
    """Real decisions: solid up to the rung that stopped the run, then dotted. Replays: paler if stopped more often."""
    real = measure.endswith("_real")
    survival = [r for r in records if r["measure"] == measure]
    survival = [r for r in survival if r.get("reduction_factor") == survival[0].get("reduction_factor")]
    values, styles = by_row(r for r in records if r["measure"] == metric), figures.styles(survival)
    for r in survival:
        style = styles[r["row"], r["seed"]]
        points = [(int(point["rungs"]), point["value"]) for point in values[r["row"], r["seed"]]]
        stop = r["low"] if real else None
        end = f"to {stop}" if stop is not None else "to the end" if real else f"{r['value']:.0%}"
        reached = [p for p in points if stop is None or p[0] <= stop]
        look = style.line(alpha=1.0 if real else 0.25 + 0.75 * r["value"])
        axes.plot(*zip(*reached, strict=True), **look, label=f"{style.name}: {end}")
        if stop is not None:
            rest = [p for p in points if p[0] >= stop]
            axes.plot(*zip(*rest, strict=True), color=style.colour, linestyle=":", linewidth=0.9, alpha=0.7)
    title = f"runs that survive a reduction factor of {survival[0].get('reduction_factor')}"
    axes.set(xlabel="updates", ylabel=metric, title="a sweep's own decisions: dotted after its stop" if real else title)
    axes.grid()


def _draw_measures(axes: Axes, records: Records, top: int) -> None:
    """One line per reduction factor, all measures in percent; they stand a little below each other, for many are 0 or 100."""
    looks = {**MEASURES, "top_kept": ("D", f"all of the best {top} kept")}
    lines = [(share, suffix, same_rungs(records, share)) for share, suffix in shares(records)]
    for place, (share, suffix, own) in enumerate(lines):
        for offset, (colour, (name, (mark, _))) in enumerate(zip(GREYS, looks.items(), strict=True)):
            y = place + 0.22 * (offset - 1)
            axes.plot([100 * own[name + suffix]["value"]], [y], mark, color=colour)
            if name == "share":
                axes.plot([100 * share["low"], 100 * share["high"]], [y, y], color=colour)
    for colour, (mark, label) in zip(GREYS, looks.values(), strict=True):
        axes.add_line(Line2D([], [], color=colour, marker=mark, linestyle="none", label=label))
    names = ["the sweep" if suffix else f"factor {share['reduction_factor']}" for share, suffix, _ in lines]
    figures.label_rows(axes, names)
    axes.set(xlim=(-4, 104), xlabel="% of the full grid's compute, % of orders")
    axes.grid(axis="x")
