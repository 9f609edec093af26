"""Training and validation loss of several rows in one plot, from the ledger alone (Shen et al. 2018, Figs. 4 and 5), and the speed of
convergence: epochs to the baseline's best validation loss and to the first cut of the learning rate, and time saved, ours and the paper's.

There is one panel per analysis row, else per corpus; its baseline is the first row. Losses are nll in nats per target token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by
from orchestrator.analysis.loss_figure import draw
from orchestrator.analysis.loss_history import Losses, losses_of
from orchestrator.analysis.loss_measures import Measure, RowCurves, measures
from orchestrator.analysis.registry import register
from orchestrator.errors import UserError
from orchestrator.report.figures import short_id
from orchestrator.report.speeds import ratios
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.table import number

ENDS = {"to_baseline_loss": "to the baseline's best loss", "to_first_cut": "to the first cut of the rate", "to_end": "to the end"}
UNITS = {"updates": "", "epochs": "", "epochs_saved": "_pct", "time_saved": "_pct"}


@dataclass(frozen=True)
class Panel:
    """Rows compared with each other, the baseline first."""

    title: str
    subjects: list[Subject]


@register("loss-curves", options={"baseline": "auto", "until": "end", "x": "auto"})
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per measure of each row, then one per point of the curves. Raises UserError if no row has a history of losses.

    Options: `baseline`, a row's address, or auto for the first of each panel; `until`, end or first-cut (the curves of Fig. 4); `x`,
    epochs, steps or seconds, or auto for epochs if every run has a whole one, else steps.
    """
    until = context.choice("until", "end", "first-cut")
    axis = context.choice("x", "auto", "epochs", "steps", "seconds")
    notes: list[str] = []
    losses = {s.row.id: found for s in context.subjects if (found := _losses(context, s, notes)) is not None}
    if not losses:
        raise UserError(*notes)
    groups = panels([s for s in context.subjects if s.row.id in losses], _baseline(context))
    axis = _axis(axis, losses, notes)
    measured: Records = []
    curves: Records = []
    for panel in groups:
        rows = _row_curves(context, panel, losses, until, notes)
        for subject, row in zip(panel.subjects, rows, strict=True):
            columns = subject.columns | {"panel": panel.title}
            is_baseline = subject is panel.subjects[0]
            for measure in measures(row, rows[0], is_baseline=is_baseline):
                measured.append(columns | _measure_record(measure, paper(measure.name, subject, panel)))
            curves += [columns | point for point in _point_records(row.part)]
            if until == "first-cut" and row.whole.cut is None:
                notes.append(f"{subject.name}: no cut of the rate within its run; its curves are whole")
    notes += [
        "training nll: mean over the updates since the validation before, with dropout; validation nll is without",
        "time saved, as the paper reckons it: 1 - (share of the baseline's epochs) / speed_ratio",
    ]
    if axis == "seconds":
        notes.append("seconds are by the wall clock of the reports: validations, pauses and other work on the machine count")
    records = measured + curves
    return Analysis("loss-curves", records, partial(draw, records, axis), list(dict.fromkeys(notes)), summary(measured))


def panels(subjects: Sequence[Subject], baseline: str | None = None) -> list[Panel]:
    """Groups subjects by analysis row, in the order of its `of`, and the others by corpus. `baseline` comes first in its panel."""
    analysis_rows = {s.analysis_row.id: s.analysis_row for s in subjects if s.analysis_row is not None}
    found: dict[str, Panel] = {}
    for subject in subjects:
        row = subject.analysis_row or next((a for a in analysis_rows.values() if subject.row.id in a.of), None)
        data = subject.spec.data
        key, title = (row.id, row.label or row.id) if row is not None else (data.model_dump_json(), str(data.corpus))
        found.setdefault(key, Panel(title, [])).subjects.append(subject)
    for key, panel in found.items():
        order = analysis_rows[key].of if key in analysis_rows else []
        panel.subjects.sort(key=lambda s: (s.row.id != baseline, order.index(s.row.id) if s.row.id in order else len(order)))
    return list(found.values())


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
    """Returns lines per row: its cost to reach each end, then its other measures, with the paper's figures in brackets."""
    lines = []
    for (row, seed, panel), row_records in group_by(records, "row", "seed", "panel").items():
        own = {r["measure"]: r for r in row_records}
        lines.append(f"{panel}: {short_id(row)} seed {seed}, {row_records[0]['label']}")
        for end, words in ENDS.items():
            parts = [own.pop(name) for name in (f"{unit}_{end}{rest}" for unit, rest in UNITS.items()) if name in own]
            known = [r for r in parts if r["value"] is not None or r["paper"] is not None]
            texts = [f"{r['measure'].replace(f'_{end}', '').removesuffix('_pct').replace('_', ' ')} {_value(r)}" for r in known]
            missing = [parts[0]["note"]] if parts[0]["value"] is None else []
            lines.append(f"  {words}: {', '.join(missing + texts)}")
        lines += [f"  {name.replace('_', ' ').removesuffix(' pct')}: {_value(r)}" for name, r in own.items()]
    return lines


def _value(record: Mapping[str, Any]) -> str:
    """Formats a value as in `34.9% (paper 35%)` or `- (paper 35%)`."""
    percent = record["measure"].endswith("_pct")
    ours, theirs = ("-" if value is None else _format(value, percent=percent) for value in (record["value"], record["paper"]))
    return ours if record["paper"] is None else f"{ours} (paper {theirs})"


def _format(value: float, *, percent: bool) -> str:
    return f"{value:.1f}%" if percent else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _losses(context: AnalysisContext, subject: Subject, notes: list[str]) -> Losses | None:
    """Returns the losses of a row, or None with a note if its history has no validation loss."""
    losses = losses_of(context.ledger.history(subject.train_key), context.train_record(subject))
    if losses.bad:
        notes.append(f"{subject.name}: {losses.bad} losses are not finite; left out")
    if not losses.points:
        notes.append(f"{subject.name}: its history has no validation loss; left out")
        return None
    return losses


def _baseline(context: AnalysisContext) -> str | None:
    """Returns the baseline's address, None for auto. Raises UserError if it is not among the rows."""
    text, known = context.options["baseline"], [s.row.id for s in context.subjects]
    if text != "auto" and text not in known:
        raise UserError(f"--option baseline={shown(text)}: {nearest(text, known)}; it must be among the targets")
    return None if text == "auto" else text


def _axis(axis: str, losses: Mapping[str, Losses], notes: list[str]) -> str:
    """Resolves auto to an axis. Raises UserError if no row has the requested axis."""
    if axis == "steps":
        return axis
    name = "epochs" if axis == "auto" else axis
    missing = [row for row, found in losses.items() if all(getattr(p, name) is None for p in found.points)]
    why = "its history has no whole epoch" if name == "epochs" else "its history has no times"
    if missing and axis == "auto":
        notes.append(f"not every history has a whole epoch ({missing[0]}): the figure is by updates")
        return "steps"
    if len(missing) == len(losses):
        raise UserError(f"--option x={axis}: {missing[0]}: {why}; expected x=steps")
    notes += [f"{row}: {why}: it is not in the figure; with x=steps it is" for row in missing]
    return name


def _row_curves(context: AnalysisContext, panel: Panel, losses: Mapping[str, Losses], until: str, notes: list[str]) -> list[RowCurves]:
    """Returns the curves of each subject. Speed ratios come from a joint measurement if there is one, else from the runs, with a note."""
    base = panel.subjects[0]
    measured, _ = ratios(context.ledger, {s.row.id: [s.train_key] for s in panel.subjects}, base.row.id)
    rates = {s.row.id: float(context.train_record(s).get("tokens_per_second") or 0.0) or None for s in panel.subjects}
    rows = []
    for subject in panel.subjects:
        row, whole = subject.row.id, losses[subject.row.id]
        rate, base_rate = rates[row], rates[base.row.id]
        speed = measured.get(row, {}).get("train_speed")
        if speed is None and rate and base_rate:
            speed = rate / base_rate
            if subject is not base:
                notes.append(
                    "speed_ratio is of what the runs happened to reach, which does not compare; analyse them with --kind speed first"
                )
        part = whole.until_cut() if until == "first-cut" else whole
        rows.append(RowCurves(whole, part, rate, speed, _limited(context.train_record(subject), subject)))
    return rows


def _limited(record: Mapping[str, Any], subject: Subject) -> bool:
    """Returns whether a limit of updates or epochs ended the run, inferred from the limits for older records without `ended_by`."""
    train, ended_by = subject.spec.train, record.get("ended_by")
    if ended_by:
        return ended_by in ("max_steps", "max_epochs")
    bounds = ((train.max_steps, record.get("steps", 0)), (train.max_epochs, record.get("epochs", 0)))
    return any(limit is not None and done >= limit for limit, done in bounds)


def _measure_record(measure: Measure, paper: float | None) -> dict[str, Any]:
    value = None if measure.value is None else round(measure.value, 6)
    return {"measure": measure.name, "step": measure.step, "value": value, "paper": paper, "note": measure.why or None}


def _point_records(losses: Losses) -> Records:
    """Returns one record per loss; `note` marks the validation that caused the first cut."""
    records: Records = []
    for data, name in (("training", "train"), ("validation", "valid")):
        for p in losses.points:
            if (value := getattr(p, name)) is not None:
                axes = {key: None if (at := getattr(p, key)) is None else round(at, 4) for key in ("epochs", "seconds")}
                cut = "first cut" if losses.cut is not None and p.step == losses.cut.step else None
                records.append({"measure": "nll", "data": data, "step": p.step, **axes, "value": round(value, 6), "note": cut})
    return records
