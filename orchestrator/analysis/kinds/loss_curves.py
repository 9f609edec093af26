"""Training and validation loss of several rows in one plot, from the ledger alone (Shen et al. 2018, Figs. 4 and 5), and the speed of
convergence: epochs to the baseline's best validation loss and to the first cut of the learning rate, and time saved, ours and the paper's.

There is one panel per analysis row, else per corpus; its baseline is the first row. Losses are nll in nats per target token.

The time saved is computed as in the paper (sections 5.1-5.2): one minus the ratio of epochs divided by the ratio of words per second. For
example, 13 epochs instead of 20 at 1571 instead of 1710 words/s save 1 - (13 / 20) / (1571 / 1710) = 29.3% of the time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by, register
from orchestrator.errors import UserError
from orchestrator.report.figures import ratios
from orchestrator.specs.table import number as figure_of
from orchestrator.tracking.history import number

SHOWN = ["panel", "label", "measure", "step", "value", "paper", "note"]


@dataclass(frozen=True)
class LossPoint:
    """One validation: `valid` is its nll per target token, `train` the mean of the updates since the previous validation.

    epochs: since the start of the run; None without a whole epoch.
    """

    step: int
    valid: float
    train: float | None
    epochs: float | None


@dataclass(frozen=True)
class Losses:
    """Validations of a row in order of updates, those that are compared.

    cut: the one after which the learning rate was first cut, or None. end: the last one of the run; None if the run ended at `max_steps` or
    `max_epochs` instead of by its schedule.
    """

    points: list[LossPoint]
    cut: LossPoint | None
    end: LossPoint | None
    words_per_second: float | None


ENDS: dict[str, tuple[Callable[[Losses, float], LossPoint | None], str]] = {
    "baseline_loss": (lambda row, goal: next((p for p in row.points if p.valid <= goal), None), "not reached"),
    "first_cut": (lambda row, goal: row.cut, "no cut within the run"),
    "end": (lambda row, goal: row.end, "ended at its limit of updates or epochs"),
}
"""Name of an end -> (function that returns the validation at this end, given the baseline's best loss; reason if there is none)."""


@register("loss-curves", options={"until": (Literal["end", "first-cut"], "end")})
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per measure of each row, then one per point of the curves. Raises UserError if no row has a history of losses.

    Options: `until`, end or first-cut (the curves of Fig. 4).
    """
    until = context.options["until"]
    notes: list[str] = []
    panels: dict[str, dict[str, tuple[Subject, Losses]]] = {}
    for subject in context.subjects:
        losses = losses_of(context.ledger.history(subject.train_key), context.ledger.read_train(subject.train_key) or {}, until)
        if not losses.points:
            notes.append(f"{subject.name}: its history has no validation loss; left out")
            continue
        if until == "first-cut" and losses.cut is None:
            notes.append(f"{subject.name}: no cut of the rate within its run; its curves are whole")
        row = subject.analysis_row
        title = subject.spec.data.corpus if row is None else row.label or row.id
        panels.setdefault(title, {})[subject.row.id] = subject, losses
    if not panels:
        raise UserError(*notes)
    measured: Records = []
    curves: Records = []
    for title, panel in panels.items():
        subjects, (_, base) = [subject for subject, _ in panel.values()], next(iter(panel.values()))
        speeds = speeds_of(context, panel, notes)
        for subject, losses in panel.values():
            columns = subject.columns | {"panel": title}
            for measure in measures(losses, None if losses is base else base, speeds[subject.row.id]):
                measured.append(columns | measure | {"paper": paper(measure["measure"], subject, subjects)})
            curves += [columns | point for point in point_records(losses)]
    notes += [
        "training nll: mean over the updates since the validation before, with dropout; validation nll is without",
        "time saved, as the paper reckons it: 1 - (share of the baseline's epochs) / speed_ratio",
    ]
    return Analysis(measured + curves, draw, list(dict.fromkeys(notes)), shown=SHOWN)


def losses_of(history: Sequence[Mapping[str, Any]], record: Mapping[str, Any], until: str = "end") -> Losses:
    """Reads the losses from a history in order of updates and the training's `record`, whose `rate_cuts` list the cuts of the rate.

    until: `first-cut` leaves out the points after it.
    """
    ends = epoch_ends(history)
    points: list[LossPoint] = []
    total, updates, last = 0.0, 0, 0
    for report in history:
        step = int(report["step"])
        train, valid = (number(report.get(name)) for name in ("train/nll", "valid/nll"))
        if train is not None:
            total, updates, last = total + train * (step - last), updates + step - last, step
        if valid is not None:
            epochs = float(np.interp(step, *np.array(ends).T)) if len(ends) > 1 else None
            points.append(LossPoint(step, valid, total / updates if updates else None, epochs))
            total, updates = 0.0, 0
    first = next((cut["step"] for cut in record.get("rate_cuts") or []), None)
    cut = next((p for p in points if p.step == first), None)
    end = points[-1] if points and record.get("ended_by") not in ("max_steps", "max_epochs") else None
    if until == "first-cut" and cut is not None:
        points = [p for p in points if p.step <= cut.step]
    return Losses(points, cut, end, float(record.get("tokens_per_second") or 0.0) or None)


def epoch_ends(history: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Returns (update, finished epochs) for each report with a newly finished epoch; exact if each is validated, else within 50 updates.

    The last one stands for the epoch that was not finished, of the mean length.
    """
    ends = [(0.0, 0.0)]
    for report in history:
        finished = number(report.get("train/epoch"))
        if finished is not None and finished > ends[-1][1]:
            ends.append((float(report["step"]), finished))
    step, epochs = ends[-1]
    return [*ends, (step + step / epochs, epochs + 1.0)] if epochs else ends


def speeds_of(context: AnalysisContext, panel: Mapping[str, tuple[Subject, Losses]], notes: list[str]) -> dict[str, float | None]:
    """Returns training speeds relative to the first row: from a joint measurement if there is one, else from the runs, with a note."""
    base = next(iter(panel))
    measured, _ = ratios(context.ledger, {row: [subject.keys] for row, (subject, _) in panel.items()}, base)
    speeds: dict[str, float | None] = {row: measured.get(row, {}).get("train_speed") for row in panel}
    rates = {row: losses.words_per_second for row, (_, losses) in panel.items()}
    for row, rate in rates.items():
        if speeds[row] is None and rate and (base_rate := rates[base]):
            speeds[row] = rate / base_rate
            if row != base:
                notes.append("speed_ratio is of the runs themselves, which does not compare; analyse them with --kind speed first")
    return speeds


def measures(row: Losses, base: Losses | None, speed: float | None) -> Records:
    """Returns the measures of a row against the baseline; base: None for the baseline itself, which saves nothing.

    Savings are in percent of the baseline's epochs and of its time; negative if the row needs more.
    """
    best, goal = (min(one.points, key=lambda p: p.valid) for one in (row, base or row))
    found = [_measure("best_valid_nll", best.valid, step=best.step)]
    for name, (end, missing) in ENDS.items():
        ours, theirs = (end(one, goal.valid) for one in (row, base or row))
        epochs, step = (None, None) if ours is None else (ours.epochs, ours.step)
        why = missing if ours is None else "no whole epoch"
        found.append(_measure(f"epochs_to_{name}", epochs, why, step))
        if base is not None:
            why = f"the baseline: {missing}" if ours is not None and theirs is None else why
            share = epochs / theirs.epochs if epochs is not None and theirs is not None and theirs.epochs else None
            found.append(_measure(f"epochs_saved_to_{name}_pct", None if share is None else 100.0 * (1.0 - share), why))
            time = 100.0 * (1.0 - share / speed) if share is not None and speed else None
            found.append(_measure(f"time_saved_to_{name}_pct", time, why if share is None else "no speed of both"))
    found.append(_measure("words_per_second", row.words_per_second, "not in its record"))
    if base is not None:
        found.append(_measure("speed_ratio", speed, "no speed of both"))
        for data in ("train", "valid"):
            found.append(_measure(f"{data}_below_baseline_pct", below(row.points, base.points, data), "nothing in common"))
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


def paper(name: str, subject: Subject, panel: Sequence[Subject]) -> float | None:
    """Returns the paper's figure from the row's own `expect`, or that of the analysis row, which applies to the second of two rows."""
    rows = [subject.row, subject.analysis_row if len(panel) == 2 and subject is panel[1] else None]
    for row in rows:
        if row is not None and (value := figure_of(row.expect.get(name))) is not None:
            return value
    if name == "speed_ratio":
        own, theirs = (paper("words_per_second", s, panel) for s in (subject, panel[0]))
        return round(own / theirs, 4) if own and theirs else None
    return None


def point_records(losses: Losses) -> Records:
    """Returns one record per loss; `note` marks the validation that caused the first cut."""
    return [
        {"measure": "nll", "data": data, "step": p.step, "epochs": None if p.epochs is None else round(p.epochs, 4)}
        | {"value": round(value, 6), "note": "first cut" if p is losses.cut else None}
        for data, name in (("training", "train"), ("validation", "valid"))
        for p in losses.points
        if (value := getattr(p, name)) is not None
    ]


def draw(figure: Figure, records: Records) -> None:
    """Draws one panel per comparison, by epochs if every run has a whole one, else by updates; dotted: the first cut of the rate."""
    points = [r for r in records if r["measure"] == "nll"]
    axis, label = ("epochs", "epochs") if all(r["epochs"] is not None for r in points) else ("step", "updates")
    groups = group_by(points, "panel")
    panels, styles = figures.curves(figure, groups, axis, "value", height=2.3)
    for axes, own in zip(panels, groups.values(), strict=True):
        axes.set_xlabel(label)
        for r in own:
            if r["note"] == "first cut" and r["data"] == "validation":
                axes.axvline(r[axis], color=styles[r["row"]]["color"], linestyle=":")
    panels[0].set_ylabel("nll per target token [nats]")
