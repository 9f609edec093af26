"""Training and validation loss of several rows in one plot, from the ledger alone (Shen et al. 2018, Figs. 4 and 5), and the speed of
convergence: epochs to the baseline's best validation loss and to the first cut of the learning rate, and time saved, ours and the paper's.

There is one panel per analysis row, else per corpus; its baseline is the first row. Losses are nll in nats per target token.

The time saved is computed as in the paper (sections 5.1-5.2): one minus the ratio of epochs divided by the ratio of words per second. For
example, 13 epochs instead of 20 at 1571 instead of 1710 words/s save 1 - (13 / 20) / (1571 / 1710) = 29.3% of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row, group_by
from orchestrator.analysis.loss_history import Losses, LossPoint, losses_of
from orchestrator.analysis.registry import register
from orchestrator.errors import UserError
from orchestrator.report.figures import short_id
from orchestrator.report.speeds import ratios
from orchestrator.specs.table import number


@dataclass(frozen=True)
class Panel:
    """Rows compared with each other, the baseline first."""

    title: str
    subjects: list[Subject]


@dataclass(frozen=True)
class RowCurves:
    """Losses of one row. part: the part that is compared. speed: training speed relative to the baseline, None if unknown.

    limited: whether the run ended at `max_steps` or `max_epochs` instead of by its schedule.
    """

    whole: Losses
    part: Losses
    words_per_second: float | None
    speed: float | None
    limited: bool = False


ENDS: dict[str, tuple[Callable[[RowCurves, float], LossPoint | None], str]] = {
    "baseline_loss": (lambda row, goal: row.part.reaches(goal), "not reached"),
    "first_cut": (lambda row, goal: row.whole.cut, "no cut within the run"),
    "end": (lambda row, goal: None if row.limited else row.whole.points[-1], "ended at its limit of updates or epochs"),
}
"""Name of an end -> (the validation where a row reaches it, given the baseline's best loss; why there is none)."""


@register("loss-curves", options={"until": "end"})
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per measure of each row, then one per point of the curves. Raises UserError if no row has a history of losses.

    Options: `until`, end or first-cut (the curves of Fig. 4).
    """
    until = context.choice("until", "end", "first-cut")
    notes: list[str] = []
    losses = {s.row.id: found for s in context.subjects if (found := _losses(context, s, notes)) is not None}
    if not losses:
        raise UserError(*notes)
    measured: Records = []
    curves: Records = []
    for panel in panels([s for s in context.subjects if s.row.id in losses]):
        rows = _row_curves(context, panel, losses, until, notes)
        for subject, row in zip(panel.subjects, rows, strict=True):
            columns = subject.columns | {"panel": panel.title}
            for measure in measures(row, rows[0], is_baseline=subject is panel.subjects[0]):
                measured.append(columns | measure | {"paper": paper(measure["measure"], subject, panel)})
            curves += [columns | point for point in _point_records(row.part)]
            if until == "first-cut" and row.whole.cut is None:
                notes.append(f"{subject.name}: no cut of the rate within its run; its curves are whole")
    notes += [
        "training nll: mean over the updates since the validation before, with dropout; validation nll is without",
        "time saved, as the paper reckons it: 1 - (share of the baseline's epochs) / speed_ratio",
    ]
    return Analysis("loss-curves", measured + curves, partial(draw, curves), list(dict.fromkeys(notes)), summary(measured))


def panels(subjects: Sequence[Subject]) -> list[Panel]:
    """Groups subjects by analysis row, in the order of its `of`, and the others by corpus."""
    analysis_rows = {s.analysis_row.id: s.analysis_row for s in subjects if s.analysis_row is not None}
    found: dict[str, Panel] = {}
    for subject in subjects:
        row = subject.analysis_row or next((a for a in analysis_rows.values() if subject.row.id in a.of), None)
        data = subject.spec.data
        key, title = (row.id, row.label or row.id) if row is not None else (data.model_dump_json(), str(data.corpus))
        found.setdefault(key, Panel(title, [])).subjects.append(subject)
    for key, panel in found.items():
        order = analysis_rows[key].of if key in analysis_rows else []
        panel.subjects.sort(key=lambda s: order.index(s.row.id) if s.row.id in order else len(order))
    return list(found.values())


def measures(row: RowCurves, base: RowCurves, *, is_baseline: bool) -> Records:
    """Returns the measures of a row against the baseline. The baseline itself has no measures of savings.

    Savings are in percent of the baseline's epochs and of its time; negative if the row needs more.
    """
    best, goal = row.part.best(), base.part.best().valid
    found = [_measure("best_valid_nll", best.valid, step=best.step)]
    for name, (end, missing) in ENDS.items():
        ours, theirs = end(row, goal), end(base, goal)
        why = missing if ours is None else "no whole epoch"
        step, epochs = (None, None) if ours is None else (ours.step, ours.epochs)
        base_epochs = None if theirs is None else theirs.epochs
        found.append(_measure(f"epochs_to_{name}", epochs, why, step))
        if not is_baseline:
            share = None if epochs is None or not base_epochs else epochs / base_epochs
            why = f"the baseline: {missing}" if ours is not None and theirs is None else why
            found.append(_measure(f"epochs_saved_to_{name}_pct", None if share is None else 100.0 * (1.0 - share), why))
            time = None if share is None or not row.speed else 100.0 * (1.0 - share / row.speed)
            found.append(_measure(f"time_saved_to_{name}_pct", time, why if share is None else "no speed of both"))
    found.append(_measure("words_per_second", row.words_per_second, "not in its record"))
    if not is_baseline:
        found.append(_measure("speed_ratio", row.speed, "no speed of both"))
        for data in ("train", "valid"):
            found.append(_measure(f"{data}_below_baseline_pct", below(row.part.points, base.part.points, data), "nothing in common"))
    return found


def _measure(name: str, value: float | None, why: str = "", step: int | None = None) -> dict[str, Any]:
    """why: the note if there is no value. step: the update at which it was reached."""
    return {"measure": name, "step": step, "value": None if value is None else round(value, 6), "note": why if value is None else None}


def below(row: Sequence[LossPoint], base: Sequence[LossPoint], data: str) -> float | None:
    """Returns the percentage of the row's validations whose loss is below the baseline's curve, interpolated by epochs, else by updates.

    Validations outside the range of the baseline's curve do not count. Returns None if there are no others.
    """
    axis = "epochs" if row[0].epochs is not None and base[0].epochs is not None else "step"
    ours, theirs = ([(getattr(p, axis), y) for p in points if (y := getattr(p, data)) is not None] for points in (row, base))
    if not theirs:
        return None
    base_x, base_y = zip(*theirs, strict=True)
    lower = [bool(y < np.interp(x, base_x, base_y)) for x, y in ours if base_x[0] <= x <= base_x[-1]]
    return 100.0 * sum(lower) / len(lower) if lower else None


def paper(name: str, subject: Subject, panel: Panel) -> float | None:
    """Returns the paper's figure from the row's own `expect`, or that of the analysis row, which applies to the second of two rows."""
    is_second = len(panel.subjects) == 2 and subject is panel.subjects[1]
    for source in (subject.row, subject.analysis_row if is_second else None):
        if source is not None and (value := number(source.expect.get(name))) is not None:
            return value
    if name == "speed_ratio":
        own, theirs = (paper("words_per_second", s, panel) for s in (subject, panel.subjects[0]))
        return round(own / theirs, 4) if own and theirs else None
    return None


def summary(records: Records) -> list[str]:
    """Returns lines per row: its measures with the paper's in brackets, or why there is none."""
    lines = []
    for (row, seed, panel), own in group_by(records, "row", "seed", "panel").items():
        lines.append(f"{panel}: {short_id(row)} seed {seed}, {own[0]['label']}")
        lines += [f"  {r['measure'].removesuffix('_pct').replace('_', ' ')}: {_value(r)}" for r in own]
    return lines


def _value(record: Mapping[str, Any]) -> str:
    """Formats a value as in `34.9% (paper 35%)` or `no cut within the run (paper 35%)`."""
    unit, form = ("%", ".1f") if record["measure"].endswith("_pct") else ("", ",.4g")
    ours = record["note"] if record["value"] is None else f"{record['value']:{form}}{unit}"
    return ours if record["paper"] is None else f"{ours} (paper {record['paper']:{form}}{unit})"


def _losses(context: AnalysisContext, subject: Subject, notes: list[str]) -> Losses | None:
    """Returns the losses of a row, or None with a note if its history has no validation loss."""
    losses = losses_of(context.ledger.history(subject.train_key), context.train_record(subject))
    if losses.bad:
        notes.append(f"{subject.name}: {losses.bad} losses are not finite; left out")
    if not losses.points:
        notes.append(f"{subject.name}: its history has no validation loss; left out")
        return None
    return losses


def _row_curves(context: AnalysisContext, panel: Panel, losses: Mapping[str, Losses], until: str, notes: list[str]) -> list[RowCurves]:
    """Returns the curves of each subject. Speed ratios come from a joint measurement if there is one, else from the runs, with a note."""
    base = panel.subjects[0]
    measured, _ = ratios(context.ledger, {s.row.id: [s.train_key] for s in panel.subjects}, base.row.id)
    rates = {s.row.id: float(context.train_record(s).get("tokens_per_second") or 0.0) or None for s in panel.subjects}
    rows = []
    for subject in panel.subjects:
        row, record, whole = subject.row.id, context.train_record(subject), losses[subject.row.id]
        rate, base_rate = rates[row], rates[base.row.id]
        speed = measured.get(row, {}).get("train_speed")
        if speed is None and rate and base_rate:
            speed = rate / base_rate
            if subject is not base:
                notes.append("speed_ratio is of the runs themselves, which does not compare; analyse them with --kind speed first")
        limited = record.get("ended_by") in ("max_steps", "max_epochs")
        rows.append(RowCurves(whole, whole.until_cut() if until == "first-cut" else whole, rate, speed, limited))
    return rows


def _point_records(losses: Losses) -> Records:
    """Returns one record per loss; `note` marks the validation that caused the first cut."""
    return [
        {
            "measure": "nll",
            "data": data,
            "step": p.step,
            "epochs": None if p.epochs is None else round(p.epochs, 4),
            "value": round(value, 6),
            "note": "first cut" if losses.cut is not None and p.step == losses.cut.step else None,
        }
        for data, name in (("training", "train"), ("validation", "valid"))
        for p in losses.points
        if (value := getattr(p, name)) is not None
    ]


def draw(records: Records, figure: Figure) -> None:
    """Draws one panel per comparison, by epochs if every run has a whole one, else by updates: one colour a model, training dashed,
    validation solid with markers, and dotted the first cut of the learning rate.
    """
    groups, styles = group_by(records, "panel"), figures.styles(records)
    axis = "epochs" if all(r["epochs"] is not None for r in records) else "step"
    panels = figures.panels(figure, len(groups), height=2.3)
    for axes, (title, points) in zip(panels, groups.items(), strict=True):
        for row, own in by_row(points).items():
            for data, curve in group_by(own, "data").items():
                look = {} if data == "validation" else {"marker": None, "linestyle": "--", "linewidth": 0.9}
                figures.plot_curve(axes, [r[axis] for r in curve], [r["value"] for r in curve], styles[row], **look)
            for r in own:
                if r["note"] == "first cut" and r["data"] == "validation":
                    axes.axvline(r[axis], color=styles[row].colour, linestyle=":")
        figures.integer_ticks(axes, integer=axes.get_xlim()[1] > 4)
        axes.set(title=figures.short(title, 60), xlabel="updates" if axis == "step" else axis)
        axes.grid()
    panels[0].set_ylabel("nll per target token [nats]")
    figures.legend(figure, [*figures.handles(styles), *figures.both_curves()])
