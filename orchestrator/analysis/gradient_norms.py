"""Gradient norm of each encoder layer over the first updates (Wei et al. 2020, Fig. 5), from the history of runs that logged it
(`train.log_gradient_norms`): L2, over all parameters of the layer, of the whole update, before clipping.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.analysis.options import whole
from orchestrator.errors import UserError
from orchestrator.tracking.history import number
from orchestrator.training.gradient_norms import METRIC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIONS = {"steps": "10000"}
"""steps: the first so many updates."""
COLUMNS = ["row", "label", "seed", "layer", "step", "norm"]


def analyse(context: Context) -> Analysis:
    """A record for each row, layer (from 1, the bottom) and update that was looked at. UserError where no run has logged any."""
    steps = whole(context, "steps", 1)
    records: list[dict[str, Any]] = []
    notes: list[str] = []
    for subject in context.subjects:
        found, bad = of_row(context, subject, steps)
        records += found
        if not found:
            notes.append(
                f"{subject.row.id} seed {subject.spec.seed}: its history has no gradient norms; train it with "
                "--set train.log_gradient_norms=10 into a --results of its own (the option is no part of a run's key)"
            )
        elif bad:
            notes.append(f"{subject.row.id} seed {subject.spec.seed}: {bad} norms are not finite; left out")
    if not records:
        raise UserError(*notes)
    return Analysis("gradient-norms", COLUMNS, records, partial(draw, records), notes, summary(records))


def of_row(context: Context, subject: Subject, steps: int) -> tuple[list[dict[str, Any]], int]:
    """(records in order of layers and updates, how many norms are not finite)."""
    about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed}
    history = [r for r in context.ledger.history(subject.train_key) if METRIC in r and r["step"] <= steps]
    points = [(int(layer), report["step"], number(norm)) for report in history for layer, norm in report[METRIC].items()]
    found = [about | {"layer": layer, "step": step, "norm": norm} for layer, step, norm in sorted(points) if norm is not None]
    return found, len(points) - len(found)


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each row: median norms over the updates of the bottom, the middle and the top layer, and the largest over the smallest."""
    lines = []
    for row, seed in dict.fromkeys((r["row"], r["seed"]) for r in records):
        layers: dict[int, list[float]] = {}
        for r in records:
            if (r["row"], r["seed"]) == (row, seed):
                layers.setdefault(r["layer"], []).append(r["norm"])
        medians = {layer: statistics.median(norms) for layer, norms in layers.items()}
        last = max(medians)
        named = [f"layer {layer} {medians[layer]:.3g}" for layer in dict.fromkeys((1, (last + 1) // 2, last)) if layer in medians]
        low, high = min(medians.values()), max(medians.values())
        ratio = f"; largest over smallest layer {high / low:.1f}" if low > 0 else ""
        lines.append(f"{row} seed {seed}: median norm of {', '.join(named)}{ratio} ({len(layers[last])} updates)")
    return lines


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """A panel for each row, one scale; a curve for each layer, dark at the bottom and light at the top."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    top = max(r["layer"] for r in records)
    colours = ScalarMappable(Normalize(1, max(2, top)), colormaps["viridis"])
    figure.set_size_inches(max(5.5, 4.4 * len(rows) + 0.9), 3.8)
    panels = figure.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    for axes, row in zip(panels, rows, strict=True):
        own = [r for r in records if (r["row"], r["seed"]) == row]
        for layer in dict.fromkeys(r["layer"] for r in own):
            curve = [(r["step"], r["norm"]) for r in own if r["layer"] == layer]
            mark = "." if len(curve) <= 30 else None
            axes.plot(*zip(*curve, strict=True), color=colours.to_rgba(layer), linewidth=0.9, marker=mark)
        axes.set_title(style.short(own[0]["label"]))
        axes.set_xlabel("updates")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.grid(alpha=0.3)
        if all(r["norm"] > 0 for r in records):
            axes.set_yscale("log")
    panels[0].set_ylabel("L2 norm of the gradient")
    figure.colorbar(colours, ax=list(panels), label="encoder layer", ticks=MaxNLocator(integer=True, nbins=8))
    figure.suptitle("Gradient norm of each encoder layer (Wei et al. 2020, Fig. 5)", fontsize=10)
