"""Training and validation loss of several rows in one plot, from the ledger alone (Shen et al. 2018, Figs. 4 and 5), and what it says of
speed: epochs to the baseline's best validation loss and to the first cut of the learning rate, time saved, each beside the paper's figure.

A panel for each analysis row, else for each corpus; its baseline is the first row of it. Losses are nll in nats per target token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from orchestrator.analysis import loss_curves_figure
from orchestrator.analysis.base import Analysis, Context, Subject, choice
from orchestrator.analysis.loss_history import Losses, losses_of
from orchestrator.analysis.loss_measures import Measure, Runner, measures
from orchestrator.errors import UserError
from orchestrator.report.figures import short_id
from orchestrator.report.speeds import ratios
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.table import number

OPTIONS = {"baseline": "auto", "until": "end", "x": "auto"}
"""baseline: a row's address, of its panel; auto: the first of each. until: end or first-cut (the curves of Fig. 4). x: epochs, steps,
seconds; auto: epochs where every run has a whole one, else steps."""
COLUMNS = ["row", "label", "seed", "panel", "measure", "data", "step", "epochs", "seconds", "value", "paper", "note"]
ENDS = {"to_baseline_loss": "to the baseline's best loss", "to_first_cut": "to the first cut of the rate", "to_end": "to the end"}
UNITS = {"updates": "", "epochs": "", "epochs_saved": "_pct", "time_saved": "_pct"}
AXES = ("epochs", "steps", "seconds")


@dataclass(frozen=True)
class Panel:
    """Rows that are compared: the baseline first."""

    title: str
    subjects: list[Subject]


def analyse(context: Context) -> Analysis:
    """A record for each measure of each row, then one for each point of its curves. UserError where no row has a history of losses."""
    until = choice("until", context.options["until"], ("end", "first-cut"))
    axis = choice("x", context.options["x"], ("auto", *AXES))
    notes: list[str] = []
    losses = {s.row.id: found for s in context.subjects if (found := _losses(context, s, notes)) is not None}
    if not losses:
        raise UserError(*notes)
    groups = panels([s for s in context.subjects if s.row.id in losses], _chosen(context))
    axis = _axis(axis, losses, notes)
    measured: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for panel in groups:
        runners, source = _runners(context, panel, losses, until)
        notes += source
        for subject, runner in zip(panel.subjects, runners, strict=True):
            about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed, "panel": panel.title}
            its = measures(runner, runners[0], own=subject is panel.subjects[0])
            measured += [about | _record(measure, paper(measure.name, subject, panel)) for measure in its]
            curves += [about | point for point in _points(runner.seen)]
            if until == "first-cut" and runner.whole.cut is None:
                notes.append(f"{subject.row.id} seed {subject.spec.seed}: no cut of the rate within its run; its curves are whole")
    notes += [
        "training nll: mean over the updates since the validation before, with dropout; validation nll is without",
        "time saved, as the paper reckons it: 1 - (share of the baseline's epochs) / speed_ratio",
    ]
    if axis == "seconds":
        notes.append("seconds are by the wall clock of the reports: validations, pauses and other work on the machine count")
    records = measured + curves
    draw = partial(loss_curves_figure.draw, records, axis)
    return Analysis("loss-curves", COLUMNS, records, draw, list(dict.fromkeys(notes)), summary(measured))


def panels(subjects: Sequence[Subject], baseline: str | None = None) -> list[Panel]:
    """Subjects of one analysis row, in the order of its `of`; the others by corpus. `baseline` comes first in its panel."""
    askers = {s.asked.id: s.asked for s in subjects if s.asked is not None}
    found: dict[str, Panel] = {}
    for subject in subjects:
        asked = subject.asked or next((a for a in askers.values() if subject.row.id in a.of), None)
        data = subject.spec.data
        key, title = (asked.id, asked.label or asked.id) if asked is not None else (data.model_dump_json(), data.corpus)
        found.setdefault(key, Panel(title, [])).subjects.append(subject)
    for key, panel in found.items():
        order = askers[key].of if key in askers else []
        panel.subjects.sort(key=lambda s: (s.row.id != baseline, order.index(s.row.id) if s.row.id in order else len(order)))
    return list(found.values())


def paper(name: str, subject: Subject, panel: Panel) -> float | None:
    """What the paper reports: the row's own `expect`, or that of the analysis row where it compares two, for the second."""
    asked = subject.asked if len(panel.subjects) == 2 and subject is panel.subjects[1] else None
    for source in (subject.row, asked):
        if source is not None and (value := number(source.expect.get(name))) is not None:
            return value
    if name == "speed_ratio":
        own, theirs = (paper("words_per_second", s, panel) for s in (subject, panel.subjects[0]))
        return round(own / theirs, 4) if own and theirs else None
    return None


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each row what it takes to each end, then its other measures; the paper's figures in brackets."""
    lines = []
    for row, seed, panel in dict.fromkeys((r["row"], r["seed"], r["panel"]) for r in records):
        own = {r["measure"]: r for r in records if (r["row"], r["seed"], r["panel"]) == (row, seed, panel)}
        lines.append(f"{panel}: {short_id(row)} seed {seed}, {own['best_valid_nll']['label']}")
        for end, words in ENDS.items():
            parts = [own.pop(name) for name in (f"{unit}_{end}{rest}" for unit, rest in UNITS.items()) if name in own]
            said = [f"{_name(r['measure'], end)} {_value(r)}" for r in parts if r["value"] is not None or r["paper"] is not None]
            lacking = [parts[0]["note"]] if parts[0]["value"] is None else []
            lines.append(f"  {words}: {', '.join(lacking + said)}")
        lines += [f"  {name.replace('_', ' ').removesuffix(' pct')}: {_value(r)}" for name, r in own.items()]
    return lines


def _name(measure: str, end: str) -> str:
    return measure.replace(f"_{end}", "").removesuffix("_pct").replace("_", " ")


def _value(record: Mapping[str, Any]) -> str:
    """`34.9% (paper 35%)`, `- (paper 35%)`."""
    percent = record["measure"].endswith("_pct")
    ours, theirs = ("-" if value is None else _short(value, percent=percent) for value in (record["value"], record["paper"]))
    return ours if record["paper"] is None else f"{ours} (paper {theirs})"


def _short(value: float, *, percent: bool) -> str:
    return f"{value:.1f}%" if percent else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _losses(context: Context, subject: Subject, notes: list[str]) -> Losses | None:
    """None, and a line more, where the history has no validation loss."""
    about = f"{subject.row.id} seed {subject.spec.seed}"
    found = losses_of(context.ledger.history(subject.train_key), context.ledger.read_train(subject.train_key) or {})
    if found.bad:
        notes.append(f"{about}: {found.bad} losses are not finite; left out")
    if not found.points:
        notes.append(f"{about}: its history has no validation loss; left out")
        return None
    return found


def _chosen(context: Context) -> str | None:
    """UserError for a baseline that is not among the rows."""
    text, known = context.options["baseline"], [s.row.id for s in context.subjects]
    if text != "auto" and text not in known:
        raise UserError(f"--option baseline={shown(text)}: {nearest(text, known)}; it must be among the targets")
    return None if text == "auto" else text


def _axis(axis: str, losses: Mapping[str, Losses], notes: list[str]) -> str:
    """UserError where the axis that was asked for is known of no row."""
    if axis == "steps":
        return axis
    name = "epochs" if axis == "auto" else axis
    lacking = [row for row, found in losses.items() if all(getattr(p, name) is None for p in found.points)]
    said = "its history has no whole epoch" if name == "epochs" else "its history has no times"
    if lacking and axis == "auto":
        notes.append(f"not every history has a whole epoch ({lacking[0]}): the figure is by updates")
        return "steps"
    if len(lacking) == len(losses):
        raise UserError(f"--option x={axis}: {lacking[0]}: {said}; expected x=steps")
    notes += [f"{row}: {said}: it is not in the figure; with x=steps it is" for row in lacking]
    return name


def _runners(context: Context, panel: Panel, losses: Mapping[str, Losses], until: str) -> tuple[list[Runner], list[str]]:
    """(of each subject, where their speeds are from). Ratios are of one measurement where there is one, else of the runs themselves."""
    base = panel.subjects[0]
    keys = {s.row.id: [s.train_key] for s in panel.subjects}
    kept, _ = ratios(context.ledger, keys, base.row.id)
    records = {s.row.id: context.ledger.read_train(s.train_key) or {} for s in panel.subjects}
    words = {row: float(r["tokens_per_second"]) if r.get("tokens_per_second") else None for row, r in records.items()}
    runners, loose = [], False
    for subject in panel.subjects:
        row, whole = subject.row.id, losses[subject.row.id]
        own, theirs = words[row], words[base.row.id]
        speed = kept.get(row, {}).get("train_speed")
        if speed is None and own and theirs:
            speed, loose = own / theirs, loose or subject is not base
        limited = _limited(records[row], subject)
        seen = whole.until_cut() if until == "first-cut" else whole
        runners.append(Runner(whole, seen, own, speed, limited))
    said = "speed_ratio is of what the runs happened to reach, which does not compare; analyse them with --kind speed first"
    return runners, [said] if loose else []


def _limited(record: Mapping[str, Any], subject: Subject) -> bool:
    """Runs of before say not what ended them."""
    train, said = subject.spec.train, record.get("ended_by")
    bounds = ((train.max_steps, record.get("steps", 0)), (train.max_epochs, record.get("epochs", 0)))
    return said in ("max_steps", "max_epochs") if said else any(most is not None and done >= most for most, done in bounds)


def _record(measure: Measure, paper: float | None) -> dict[str, Any]:
    value = None if measure.value is None else round(measure.value, 6)
    return {"measure": measure.name, "step": measure.step, "value": value, "paper": paper, "note": measure.why or None}


def _points(losses: Losses) -> list[dict[str, Any]]:
    """One record for each loss; `note` says which validation made the first cut."""
    found = []
    for data, name in (("training", "train"), ("validation", "valid")):
        for p in losses.points:
            if (value := getattr(p, name)) is not None:
                rounded = {key: None if (at := getattr(p, key)) is None else round(at, 4) for key in ("epochs", "seconds")}
                cut = "first cut" if losses.cut is not None and p.step == losses.cut.step else None
                found.append({"measure": "nll", "data": data, "step": p.step, **rounded, "value": round(value, 6), "note": cut})
    return found
