"""Accuracy of the next token on training and validation data by update (Wang et al. 2018, Fig. 4), from the history of each run.

Validation: teacher forced, without dropout, the whole set. Training: a sample of the positions of the updates since the last report, as
they are trained on, so with dropout and before the update; the paper does not say how it measures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.errors import UserError
from orchestrator.tracking.history import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ["row", "label", "seed", "data", "step", "accuracy"]
DATA = {"training": "train/accuracy", "validation": "valid/accuracy"}


def analyse(context: Context) -> Analysis:
    """A record for each row, kind of data and report: `step` in updates, `accuracy` in percent of target tokens, EOS counted."""
    records: list[dict[str, Any]] = []
    notes = ["training accuracy is of sampled positions with dropout on, validation accuracy of all positions without"]
    for subject in context.subjects:
        for data in DATA:
            found = of_row(context, subject, data)
            records += found
            if not found:
                notes.append(f"{subject.row.id} seed {subject.spec.seed}: its history has no {DATA[data]}; that curve is missing")
    if not records:
        raise UserError(*notes[1:])
    return Analysis("accuracy", COLUMNS, records, partial(draw, records), notes, summary(records))


def of_row(context: Context, subject: Subject, data: str) -> list[dict[str, Any]]:
    about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed, "data": data}
    history = context.ledger.history(subject.train_key)
    points = [(report["step"], number(report.get(DATA[data]))) for report in history]
    return [about | {"step": step, "accuracy": round(100.0 * value, 4)} for step, value in points if value is not None]


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The last point of each curve."""
    last = {(r["row"], r["seed"], r["data"]): r for r in records}
    return [f"{r['row']} seed {r['seed']}: {r['data']} {r['accuracy']:.2f} % at update {r['step']}" for r in last.values()]


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """A colour a row; training solid, validation dashed."""
    from matplotlib.ticker import MaxNLocator

    axes = figure.subplots()
    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    for index, row in enumerate(rows):
        for data, line in zip(DATA, ("-", "--"), strict=True):
            own = [r for r in records if (r["row"], r["seed"]) == row and r["data"] == data]
            if own:
                mark = style.marker(index) if len(own) <= 30 else None
                label = f"{style.short(own[0]['label'])}, {data}"
                steps, heights = [r["step"] for r in own], [r["accuracy"] for r in own]
                axes.plot(steps, heights, line, color=style.colour(index), marker=mark, markersize=4, linewidth=1.2, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("updates")
    axes.set_ylabel("token accuracy [%]")
    axes.set_title("Token accuracy by update (Wang et al. 2018, Fig. 4)")
    axes.grid(alpha=0.3)
    style.from_zero(axes)
    style.legend(figure, axes)
