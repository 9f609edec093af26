"""Left: validation curves of the full grid, marked by how often each run survives; right: compute spent against the best runs kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Records = Sequence[Mapping[str, Any]]


def draw(records: Records, metric: str, top: int, figure: Figure) -> None:
    figure.set_size_inches(11.5, 4.8)
    curves, trade = figure.subplots(1, 2, width_ratios=[1.5, 1.0])
    real = any(r["measure"] == "survived_real" for r in records)
    _curves(curves, records, metric, "survived_real" if real else "survived")
    _trade(trade, records, top)


def _curves(axes: Axes, records: Records, metric: str, measure: str) -> None:
    """Until a rung stops it a line is whole, behind it dotted; of many orders: the paler, the more often stopped."""
    first = next(r.get("reduction_factor") for r in records if r["measure"] == measure)
    survived = {r["row"]: r for r in records if r["measure"] == measure and r.get("reduction_factor") == first}
    for index, (row, ends) in enumerate(survived.items()):
        points = [(int(r["rungs"]), r["value"]) for r in records if r["measure"] == metric and r["row"] == row]
        colour, stop = style.colour(index), ends["low"] if measure.endswith("_real") else None
        label = style.short(ends["label"] or row.rpartition("/")[2], 34)
        seen = [p for p in points if stop is None or p[0] <= stop]
        alpha = 1.0 if measure.endswith("_real") else 0.25 + 0.75 * ends["value"]
        marks: dict[str, Any] = {"color": colour, "marker": style.marker(index), "markersize": 4, "linewidth": 1.2, "alpha": alpha}
        axes.plot(*zip(*seen, strict=True), label=f"{label}: {_end(ends, stop)}", **marks)
        if stop is not None:
            axes.plot(*zip(*[p for p in points if p[0] >= stop], strict=True), color=colour, linestyle=":", linewidth=0.9, alpha=0.7)
    axes.set_xlabel("updates")
    axes.set_ylabel(metric)
    axes.set_title(
        "stopped by a sweep's own ASHA: dotted behind the rung" if measure.endswith("_real") else f"survival, reduction factor {first}"
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=6.5, ncols=2 if len(survived) > 8 else 1)


def _end(ends: Mapping[str, Any], stop: int | None) -> str:
    if stop is not None:
        return f"to {stop}"
    return "to the end" if ends["measure"].endswith("_real") else f"{ends['value']:.0%}"


def _trade(axes: Axes, records: Records, top: int) -> None:
    points = [(r, "") for r in records if r["measure"] == "share"] + [(r, "_real") for r in records if r["measure"] == "share_real"]
    axes.scatter([100], [100], color="black", marker="*", s=90, label="the full grid", zorder=3)
    for index, (share, suffix) in enumerate(points):
        own = {
            r["measure"]: r for r in records if (r.get("reduction_factor"), r["rungs"]) == (share.get("reduction_factor"), share["rungs"])
        }
        x, low, high = (100 * share[name] for name in ("value", "low", "high"))
        for name, filled, what in (("best_kept", False, "the best run"), ("top_kept", True, f"all of the best {top}")):
            y = 100 * own[name + suffix]["value"]
            who = "the sweep that ran" if suffix else f"factor {share['reduction_factor']}"
            axes.errorbar(
                [x],
                [y],
                xerr=[[x - low], [high - x]],
                color=style.colour(index),
                marker="D" if suffix else "o",
                markersize=9 if suffix and not filled else 6,
                fillstyle="full" if filled else "none",
                capsize=2.5,
                label=f"{who}: {what}",
            )
    axes.set_xlim(0, 105)
    axes.set_ylim(-5, 105)
    axes.set_xlabel("compute, % of the full grid (bars: 90% of the orders)")
    axes.set_ylabel("orders in which they are kept, %")
    axes.set_title("what ASHA spends, and what it keeps")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="best")
