"""Next-token accuracy on training and validation data by update (Wang et al. 2018, Fig. 4), from the history of each run.

Validation accuracy is teacher forced, without dropout, on the whole set. Training accuracy is measured on sampled positions of the updates
since the last report, with dropout and before the update. The paper does not say how it measures training accuracy.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register, table_of

METRICS = {"training": "train/accuracy", "validation": "valid/accuracy"}


@register("accuracy")
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and report: `step` in updates, `accuracy` in percent of target tokens including EOS."""
    records, notes = context.each_row(analyse_row)
    notes.insert(0, "training accuracy is of sampled positions with dropout on, validation accuracy of all positions without")
    last = pd.DataFrame(records).groupby(["row", "data"], sort=False).accuracy.last()
    return Analysis(records, draw, notes, table_of("accuracy at the last update [%]:", last, "{:.2f}"), width="column")


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    curves = {data: context.curve(subject, metric) for data, metric in METRICS.items()}
    notes += [f"{subject.name}: its history has no {METRICS[data]}; that curve is missing" for data, curve in curves.items() if not curve]
    return [
        subject.columns | {"data": data, "step": step, "accuracy": round(100.0 * value, 4)}
        for data, curve in curves.items()
        for step, value in curve
    ]


def draw(figure: Figure, records: Records) -> None:
    (axes,), _ = figures.curves(figure, {"": records}, "step", "accuracy")
    axes.set(xlabel="updates", ylabel="token accuracy [%]")
