"""Next-token accuracy on training and validation data by update (Wang et al. 2018, Fig. 4), from the history of each run.

Validation accuracy is teacher forced, without dropout, on the whole set. Training accuracy is measured on sampled positions of the updates
since the last report, with dropout and before the update. The paper does not say how it measures training accuracy.
"""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row, group_by
from orchestrator.analysis.registry import register

METRICS = {"training": "train/accuracy", "validation": "valid/accuracy"}


@register("accuracy")
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and report: `step` in updates, `accuracy` in percent of target tokens including EOS."""
    records, notes = context.each_row(partial(analyse_row, context))
    notes = ["training accuracy is of sampled positions with dropout on, validation accuracy of all positions without", *notes]
    last = [curve[-1] for curve in group_by(records, "row", "seed", "data").values()]
    summary = [f"{r['row']} seed {r['seed']}: {r['data']} {r['accuracy']:.2f} % at update {r['step']}" for r in last]
    return Analysis("accuracy", records, partial(draw, records), notes, summary, width=figures.width_of(len(context.subjects)))


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    curves = {data: context.curve(subject, metric) for data, metric in METRICS.items()}
    notes += [f"{subject.name}: its history has no {METRICS[data]}; that curve is missing" for data, curve in curves.items() if not curve]
    return [
        subject.columns | {"data": data, "step": step, "accuracy": round(100.0 * value, 4)}
        for data, curve in curves.items()
        for step, value in curve
    ]


def draw(records: Records, figure: Figure) -> None:
    """Draws one colour per model, training dashed and validation solid with markers."""
    (axes,) = figures.panels(figure, 1)
    styles = figures.styles(records)
    for row, own in by_row(records).items():
        for data, curve in group_by(own, "data").items():
            look = {} if data == "validation" else {"marker": None, "linestyle": "--"}
            figures.plot_curve(axes, [r["step"] for r in curve], [r["accuracy"] for r in curve], styles[row], **look)
    figures.integer_ticks(axes)
    axes.set(xlabel="updates", ylabel="token accuracy [%]")
    axes.grid()
    figures.legend(figure, [*figures.handles(styles), *figures.both_curves()])
