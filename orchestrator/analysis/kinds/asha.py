"""Cost and losses of ASHA on a grid that was trained in full, by replaying its decisions on recorded validations in many start orders.

For each reduction factor: the share of the full grid's compute, counted in updates, how often the best run and all of the best `top`
survive, and which runs are stopped. Runs are ranked by the metric at their end. `decisions` is the file of a sweep that ran under ASHA
(results/sweeps/NAME.asha.json), compared with the same full runs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject
from orchestrator.analysis.registry import register
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.asha_replay import Curve, Replay, replay, rungs_of

OPTIONS = {
    "metric": "valid/nll",
    "rungs": "auto",
    "reduction_factor": "2,3,4",
    "top": "3",
    "orders": "1000",
    "workers": "2",
    "decisions": "none",
}
"""rungs: steps, or auto for T/r, T/r^2, ... orders: number of shuffles."""
SHOWN = ["reduction_factor", "rungs", "row", "share", "low", "high", "best_kept", "top_kept", "survived"]


@register("asha", options=OPTIONS)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per reduction factor and one for `decisions`, each followed by one per row.

    share: of the full grid's compute, the median of the orders; low and high cover 90 % of them. best_kept, top_kept: shares of the orders.
    survived: share of the orders in which a row reaches its end; low and high are then the first and last rung that stopped it. Raises
    UserError if fewer than two rows have a history.
    """
    metric = context.choice("metric", "valid/nll", "valid/ppl", "valid/accuracy")
    mode = "max" if metric == "valid/accuracy" else "min"
    top, orders, workers = (context.integer(name, 1) for name in ("top", "orders", "workers"))
    notes: list[str] = []
    curves = _curves(context, metric, notes)
    subjects = {s.row.id: s for s in context.subjects if s.row.id in curves}
    best = sorted(curves, key=lambda run: curves[run].final, reverse=mode == "max")
    if top > len(best):
        raise UserError(f"--option top={top}: expected at most {len(best)}, the rows that can be ranked")
    pinned = {run for run, subject in subjects.items() if subject.row.pinned}
    records: Records = []
    for factor in context.numbers("reduction_factor", least=2):
        rungs = _rungs(context, curves, factor)
        replays = [replay(curves, Asha(rungs, float(factor), mode, pinned), order, workers) for order in _orders(curves, pinned, orders)]
        columns = {"reduction_factor": factor, "rungs": " ".join(str(rung) for rung in rungs)}
        records += _measures(replays, best[:top], subjects, columns)
    if context.options["decisions"] != "none":
        path = Path(context.options["decisions"])
        records += _measures([_real_decisions(path, curves)], best[:top], subjects, {"reduction_factor": None, "rungs": path.name})
    notes += [
        f"replayed: {len(curves)} full runs, {orders:,} orders of start, {workers} at a time; pinned: {len(pinned)}",
        f"the best {top}: {', '.join(run.partition('/')[2] for run in best[:top])}, by {metric} of the full runs",
    ]
    return Analysis("asha", records, partial(draw, records, curves, metric), notes, summary(records, top), SHOWN)


def summary(records: Records, top: int) -> list[str]:
    return [
        f"{'a sweep' if r['reduction_factor'] is None else 'reduction factor ' + str(r['reduction_factor'])}, rungs {r['rungs']}: "
        f"{r['share']:.0%} of the full grid's compute ({r['low']:.0%} to {r['high']:.0%} of 90% of the orders); the best run kept in "
        f"{r['best_kept']:.0%}, all of the best {top} in {r['top_kept']:.0%} of the orders"
        for r in records
        if "share" in r
    ]


def _curves(context: AnalysisContext, metric: str, notes: list[str]) -> dict[str, Curve]:
    """Maps each row to the validations of its training. A training shared by several rows counts once, as in a sweep."""
    curves: dict[str, Curve] = {}
    first: dict[str, str] = {}
    for subject in context.subjects:
        if (same := first.setdefault(subject.train_key, subject.row.id)) != subject.row.id:
            notes.append(f"{subject.row.id}: the training of {same}; a sweep trains it once")
        elif not (values := dict(context.curve(subject, metric))):
            notes.append(f"{subject.name}: its history has no {metric}; left out")
        elif context.train_record(subject).get("status") != "done":
            notes.append(f"{subject.name}: it did not run to its end; left out")
        else:
            curves[subject.row.id] = Curve(values)
    if len(curves) < 2:
        raise UserError(*notes, f"found {len(curves)} rows with validations; expected at least 2 to compare")
    return curves


def _rungs(context: AnalysisContext, curves: Mapping[str, Curve], factor: int) -> list[int]:
    """Returns the rungs. Raises UserError for a step at which some run was not validated, or if `auto` finds none."""
    text = context.options["rungs"]
    if text == "auto":
        rungs = rungs_of(curves, factor)
        if not rungs:
            raise UserError(f"--option reduction_factor={factor}: no validation of all runs is near T/{factor}; expected rungs=STEP,STEP")
        return rungs
    rungs = sorted(context.numbers("rungs", least=1))
    missing = [(step, run) for step in rungs for run, curve in curves.items() if step < curve.steps and step not in curve.values]
    if missing:
        raise UserError(f"--option rungs={shown(text)}: {missing[0][1]} was not validated at step {missing[0][0]}")
    return rungs


def _orders(runs: Mapping[str, Curve], pinned: set[str], count: int) -> list[list[str]]:
    """Returns start orders as in a sweep: pinned runs first, the rest shuffled."""
    generator = random.Random(1)
    first, rest = [run for run in runs if run in pinned], [run for run in runs if run not in pinned]
    return [first + generator.sample(rest, len(rest)) for _ in range(count)]


def _measures(replays: Sequence[Replay], best: Sequence[str], subjects: Mapping[str, Subject], columns: Mapping[str, Any]) -> Records:
    """Returns the record of a reduction factor, then those of its rows. best: the best runs, the very best first."""
    shares = sorted(r.share for r in replays)
    last = len(shares) - 1
    kept = [sum(run not in r.stopped for run in best) for r in replays]
    found = {
        "share": shares[last // 2],
        "low": shares[round(0.05 * last)],
        "high": shares[round(0.95 * last)],
        "best_kept": fmean(best[0] not in r.stopped for r in replays),
        "top_kept": fmean(number == len(best) for number in kept),
        "kept_of_top": fmean(kept),
    }
    records: Records = [{**columns, "orders": len(replays)} | {name: round(value, 4) for name, value in found.items()}]
    for run, subject in subjects.items():
        rungs = sorted(r.stopped[run] for r in replays if run in r.stopped)
        record = {**columns, "orders": len(replays), **subject.columns, "survived": round(1 - len(rungs) / len(replays), 4)}
        records.append(record | {"low": rungs[0] if rungs else None, "high": rungs[-1] if rungs else None})
    return records


def _real_decisions(path: Path, curves: Mapping[str, Curve]) -> Replay:
    """Reads the decisions of a sweep and their cost. Raises UserError for a file that is not ASHA's or has other rows."""
    given = f"--option decisions={shown(str(path))}"
    try:
        rungs = json.loads(path.read_text())["rungs"]
        stopped = {r["run"].rpartition(":")[0]: int(rung) for rung, rows in rungs.items() for r in rows if not r["continue"]}
        runs = {r["run"].rpartition(":")[0] for rows in rungs.values() for r in rows}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{given}: found no decisions of ASHA; expected RESULTS/sweeps/NAME.asha.json") from error
    if runs != set(curves):
        raise UserError(f"{given}: it is of other rows: {sorted(runs ^ set(curves))[0]} is in one of them only")
    spent = {run: stopped.get(run, curve.steps) * curve.cost for run, curve in curves.items()}
    return Replay(stopped, spent, sum(curve.steps * curve.cost for curve in curves.values()))


def draw(records: Records, curves: Mapping[str, Curve], metric: str, figure: Figure) -> None:
    """Draws the validation curves, the paler the more orders of the first reduction factor stop the run; of a sweep's own decisions, solid
    up to the rung that stopped it, then dotted.
    """
    (axes,) = figures.panels(figure, 1, height=2.6)
    real = records[-1]["reduction_factor"] is None
    survival = [r for r in records if "row" in r and r["rungs"] == records[-1 if real else 0]["rungs"]]
    survival = [r for r in survival if r["reduction_factor"] == survival[0]["reduction_factor"]]
    styles = figures.styles(survival)
    for r in survival:
        style, points = styles[r["row"], r["seed"]], sorted(curves[r["row"]].values.items())
        stop = r["low"] if real else None
        end = f"to {stop}" if stop is not None else "to the end" if real else f"{r['survived']:.0%}"
        look = style.line(alpha=1.0 if real else 0.25 + 0.75 * r["survived"])
        axes.plot(*zip(*(p for p in points if stop is None or p[0] <= stop), strict=True), **look, label=f"{style.name}: {end}")
        if stop is not None:
            axes.plot(*zip(*(p for p in points if p[0] >= stop), strict=True), color=style.colour, linestyle=":", linewidth=0.9)
    title = f"runs that survive a reduction factor of {survival[0]['reduction_factor']}"
    axes.set(xlabel="updates", ylabel=metric, title="a sweep's own decisions: dotted after its stop" if real else title)
    axes.grid()
    figures.legend(figure, axes.get_legend_handles_labels()[0])
