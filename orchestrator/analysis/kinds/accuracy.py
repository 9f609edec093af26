"""Next-token accuracy on training and validation data by update (Wang et al. 2018, Fig. 4), from the history of each run.

Validation accuracy is teacher forced, without dropout, on the whole set. Training accuracy is measured on sampled positions of the updates
since the last report, with dropout and before the update. The paper does not say how it measures training accuracy.
"""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, by_row, group_by
from orchestrator.analysis.registry import register
from orchestrator.errors import UserError

COLUMNS = ["row", "label", "seed", "data", "step", "accuracy"]
METRICS = {"training": "train/accuracy", "validation": "valid/accuracy"}


@register("accuracy")
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and report: `step` in updates, `accuracy` in percent of target tokens including EOS."""
    records: Records = []
    notes = ["training accuracy is of sampled positions with dropout on, validation accuracy of all positions without"]
    for subject in context.subjects:
        for data, metric in METRICS.items():
            curve = context.curve(subject, metric)
            records += [subject.columns | {"data": data, "step": step, "accuracy": round(100.0 * value, 4)} for step, value in curve]
            if not curve:
                notes.append(f"{subject.name}: its history has no {metric}; that curve is missing")
    if not records:
        raise UserError(*notes[1:])
    last = [curve[-1] for curve in group_by(records, "row", "seed", "data").values()]
    summary = [f"{r['row']} seed {r['seed']}: {r['data']} {r['accuracy']:.2f} % at update {r['step']}" for r in last]
    return Analysis("accuracy", COLUMNS, records, partial(draw, records), notes, summary)


def draw(records: Records, figure: Figure) -> None:
    """Draws one colour per row, training solid and validation dashed."""
    axes = figure.subplots()
    for index, own in enumerate(by_row(records).values()):
        curves = group_by(own, "data")
        for data, line in zip(METRICS, ("-", "--"), strict=True):
            if points := [(r["step"], r["accuracy"]) for r in curves.get(data, [])]:
                figures.plot_curve(axes, index, points, f"{figures.short(own[0]['label'])}, {data}", line)
    figures.integer_ticks(axes)
    axes.set(xlabel="updates", ylabel="token accuracy [%]", title="Token accuracy by update (Wang et al. 2018, Fig. 4)")
    axes.grid(alpha=0.3)
    figures.clip_at_zero(axes)
    figures.legend(figure, axes)
