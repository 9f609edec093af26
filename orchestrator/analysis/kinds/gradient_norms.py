"""Gradient norm of each encoder layer over the first updates (Wei et al. 2020, Fig. 5), from runs with `train.log_gradient_norms`.

The norm is the L2 norm over all parameters of the layer, for the whole update, before clipping.
"""

from __future__ import annotations

import statistics
from functools import partial

from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row, group_by
from orchestrator.analysis.registry import register
from orchestrator.tracking.history import number
from orchestrator.training.metrics import METRIC


@register("gradient-norms", options={"steps": "10000"})
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, layer (from 1, the bottom) and logged update up to `steps`. Raises UserError if no run logged any."""
    steps = context.integer("steps", 1)
    records, notes = context.each_row(partial(analyse_row, context, steps))
    return Analysis("gradient-norms", records, partial(draw, records), notes, summary(records))


def analyse_row(context: AnalysisContext, steps: int, subject: Subject, notes: list[str]) -> Records:
    """Returns the finite norms in order of layers and updates."""
    history = [r for r in context.ledger.history(subject.train_key) if METRIC in r and r["step"] <= steps]
    points = [(int(layer), report["step"], number(norm)) for report in history for layer, norm in report[METRIC].items()]
    records = [subject.columns | {"layer": layer, "step": step, "norm": norm} for layer, step, norm in sorted(points) if norm is not None]
    if not records:
        notes.append(
            f"{subject.name}: its history has no gradient norms; train it with "
            "--set train.log_gradient_norms=10 into a --results of its own (the option is no part of a run's key)"
        )
    elif len(records) < len(points):
        notes.append(f"{subject.name}: {len(points) - len(records)} norms are not finite; left out")
    return records


def summary(records: Records) -> list[str]:
    """Returns a line per row: median norms of the bottom, middle and top layer, and the ratio of the largest to the smallest layer."""
    lines = []
    for (row, seed), own in by_row(records).items():
        layers = {layer: [r["norm"] for r in curve] for layer, curve in group_by(own, "layer").items()}
        medians = {layer: statistics.median(norms) for layer, norms in layers.items()}
        last = max(medians)
        named = [f"layer {layer} {medians[layer]:.3g}" for layer in dict.fromkeys((1, (last + 1) // 2, last)) if layer in medians]
        low, high = min(medians.values()), max(medians.values())
        ratio = f"; largest over smallest layer {high / low:.1f}" if low > 0 else ""
        lines.append(f"{row} seed {seed}: median norm of {', '.join(named)}{ratio} ({len(layers[last])} updates)")
    return lines


def draw(records: Records, figure: Figure) -> None:
    """Draws one panel per row on a shared scale, one curve per layer, dark at the bottom and light at the top."""
    rows = list(by_row(records).values())
    colours = ScalarMappable(Normalize(1, max(2, *(r["layer"] for r in records))), colormaps["viridis"])
    panels = figures.panels(figure, len(rows), sharey=True)
    for axes, own in zip(panels, rows, strict=True):
        for layer, curve in group_by(own, "layer").items():
            points = [(r["step"], r["norm"]) for r in curve]
            axes.plot(*zip(*points, strict=True), color=colours.to_rgba(layer), linewidth=0.9, marker="." if len(points) <= 30 else None)
        axes.set(title=figures.short(own[0]["label"]), xlabel="updates")
        figures.integer_ticks(axes, 5)
        axes.grid()
        if all(r["norm"] > 0 for r in records):
            axes.set_yscale("log")
    panels[0].set_ylabel("L2 norm of the gradient")
    figure.colorbar(colours, ax=panels, label="encoder layer", ticks=MaxNLocator(integer=True, nbins=8))
