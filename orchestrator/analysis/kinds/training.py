"""Curves of the training, from the history of each run.

accuracy: of the next token on training and validation data by update (Wang et al. 2018, Fig. 4). Validation accuracy is teacher forced,
without dropout, on the whole set. Training accuracy is measured on sampled positions of the updates since the last report, with dropout and
before the update. The paper does not say how it measures training accuracy.

gradient-norms: of each encoder layer over the first updates (Wei et al. 2020, Fig. 5), from runs with `train.log_gradient_norms`. The norm
is the L2 norm over all parameters of the layer, for the whole update, before clipping.
"""

import pandas as pd
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by, register, table_of
from orchestrator.tracking.history import number
from orchestrator.training.metrics import METRIC

ACCURACIES = {"training": "train/accuracy", "validation": "valid/accuracy"}


@register("accuracy")
def accuracy(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and report: `step` in updates, `accuracy` in percent of target tokens including EOS."""
    records, notes = context.each_row(_accuracies)
    notes.insert(0, "training accuracy is of sampled positions with dropout on, validation accuracy of all positions without")
    last = pd.DataFrame(records).groupby(["row", "data"], sort=False).accuracy.last()
    return Analysis(records, _draw_accuracy, notes, table_of("accuracy at the last update [%]:", last, "{:.2f}"), width="column")


def _accuracies(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    curves = {data: context.curve(subject, metric) for data, metric in ACCURACIES.items()}
    notes += [f"{subject.name}: its history has no {ACCURACIES[data]}; that curve is missing" for data in curves if not curves[data]]
    return [
        subject.columns | {"data": data, "step": step, "accuracy": round(100.0 * value, 4)}
        for data, curve in curves.items()
        for step, value in curve
    ]


def _draw_accuracy(figure: Figure, records: Records) -> None:
    (axes,), _ = figures.curves(figure, {"": records}, "step", "accuracy")
    axes.set(xlabel="updates", ylabel="token accuracy [%]")


@register("gradient-norms", options={"steps": 10000})
def gradient_norms(context: AnalysisContext) -> Analysis:
    """Returns one record per row, layer (from 1, the bottom) and logged update up to `steps`. Raises UserError if no run logged any."""
    records, notes = context.each_row(_norms)
    medians = pd.DataFrame(records).pivot_table(index="layer", columns="row", values="norm", aggfunc="median", sort=False)
    return Analysis(records, _draw_norms, notes, table_of("median norm:", medians, "{:.3g}"))


def _norms(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    last = context.options["steps"]
    history = [r for r in context.ledger.history(subject.train_key) if METRIC in r and r["step"] <= last]
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


def _draw_norms(figure: Figure, records: Records) -> None:
    """Draws one panel per row on a shared scale, one curve per layer, dark at the bottom and light at the top."""
    rows = group_by(records, "row", "label")
    colours = ScalarMappable(Normalize(1, max(2, *(r["layer"] for r in records))), colormaps["viridis"])
    panels = figures.panels(figure, len(rows), sharey=True)
    for axes, ((_, label), own) in zip(panels, rows.items(), strict=True):
        for layer, curve in group_by(own, "layer").items():
            points, marker = [(r["step"], r["norm"]) for r in curve], "." if len(curve) <= 30 else None
            axes.plot(*zip(*points, strict=True), color=colours.to_rgba(layer), linewidth=0.9, marker=marker)
        axes.set(title=figures.short(label), xlabel="updates", yscale="log" if all(r["norm"] > 0 for r in records) else "linear")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes.grid()
    panels[0].set_ylabel("L2 norm of the gradient")
    figure.colorbar(colours, ax=panels, label="encoder layer", ticks=MaxNLocator(integer=True, nbins=8))
