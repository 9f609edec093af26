"""Cost and losses of ASHA on a grid that was trained in full, by replaying its decisions on recorded validations in many start orders.

For each reduction factor: the share of the full grid's compute, counted in updates, how often the best run and all of the best `top`
survive, and which runs are stopped. Runs are ranked by the metric at their end.
"""

import heapq
import random
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown
from orchestrator.sweeps.asha import Asha

Curves = Mapping[str, Mapping[int, float]]
"""Run -> its metric at each validation by step, the last at its end."""

OPTIONS = {"metric": "valid/nll", "rungs": "auto", "reduction_factor": "2,3,4", "top": "3", "orders": "1000", "workers": "2"}
"""rungs: steps, or auto for T/r, T/r^2, ... orders: number of shuffles."""
SHOWN = ["reduction_factor", "rungs", "row", "share", "low", "high", "best_kept", "top_kept", "survived"]


@register("asha", options=OPTIONS)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per reduction factor, each followed by one per row.

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
    best = sorted(curves, key=lambda run: curves[run][max(curves[run])], reverse=mode == "max")[:top]
    if top > len(best):
        raise UserError(f"--option top={top}: expected at most {len(best)}, the rows that can be ranked")
    pinned = {run for run, subject in subjects.items() if subject.row.pinned}
    first, others = [run for run in curves if run in pinned], [run for run in curves if run not in pinned]
    records: Records = []
    for factor in context.numbers("reduction_factor", least=2):
        rungs, generator = _rungs(context, curves, factor), random.Random(1)
        # start orders as in a sweep: pinned runs first, the rest shuffled
        shuffled = [first + generator.sample(others, len(others)) for _ in range(orders)]
        replays = [replay(curves, Asha(rungs, float(factor), mode, pinned), order, workers) for order in shuffled]
        columns = {"reduction_factor": factor, "rungs": " ".join(str(rung) for rung in rungs), "orders": orders}
        records += [columns | _measures(replays, curves, best), *(columns | _survival(replays, subject) for subject in subjects.values())]
    notes += [
        f"replayed: {len(curves)} full runs, {orders:,} orders of start, {workers} at a time; pinned: {len(pinned)}",
        f"the best {top}: {', '.join(run.partition('/')[2] for run in best)}, by {metric} of the full runs",
    ]
    return Analysis(records, partial(draw, curves, metric), notes, shown=SHOWN)


def _curves(context: AnalysisContext, metric: str, notes: list[str]) -> dict[str, dict[int, float]]:
    """Maps each row to the validations of its training. A training shared by several rows counts once, as in a sweep."""
    curves: dict[str, dict[int, float]] = {}
    first: dict[str, str] = {}
    for subject in context.subjects:
        if (same := first.setdefault(subject.train_key, subject.row.id)) != subject.row.id:
            notes.append(f"{subject.row.id}: the training of {same}; a sweep trains it once")
        elif not (values := dict(context.curve(subject, metric))):
            notes.append(f"{subject.name}: its history has no {metric}; left out")
        else:
            curves[subject.row.id] = values
    if len(curves) < 2:
        raise UserError(*notes, f"found {len(curves)} rows with validations; expected at least 2 to compare")
    return curves


def _rungs(context: AnalysisContext, curves: Curves, factor: int) -> list[int]:
    """Returns the rungs. Raises UserError for a step at which some run was not validated, or if `auto` finds none."""
    text = context.options["rungs"]
    if text == "auto":
        rungs = rungs_of(curves, factor)
        if not rungs:
            raise UserError(f"--option reduction_factor={factor}: no validation of all runs is near T/{factor}; expected rungs=STEP,STEP")
        return rungs
    rungs = sorted(context.numbers("rungs", least=1))
    missing = [(step, run) for step in rungs for run, curve in curves.items() if step < max(curve) and step not in curve]
    if missing:
        raise UserError(f"--option rungs={shown(text)}: {missing[0][1]} was not validated at step {missing[0][0]}")
    return rungs


def rungs_of(curves: Curves, reduction_factor: float) -> list[int]:
    """Common validation steps nearest to T/r, T/r^2, ... for the length T of the shortest run, down to the first validation."""
    length = min(max(curve) for curve in curves.values())
    inner = [step for step in sorted(set.intersection(*map(set, curves.values()))) if step < length]
    rungs: set[int] = set()
    target = length / reduction_factor
    while inner and target >= 0.75 * inner[0]:
        rungs.add(min(inner, key=lambda step: abs(step - target)))
        target /= reduction_factor
    return sorted(rungs)


def replay(curves: Curves, asha: Asha, order: Sequence[str], workers: int) -> dict[str, int]:
    """Returns the rung of each run that a sweep would have stopped. KeyError if a run was not validated at a rung.

    Trainings are deterministic and rungs change no weights, so a run's reports depend neither on other runs nor on the scheduler. The runs
    start in this `order`, `workers` at a time, and all updates take equally long; the next run starts when one ends or is stopped.
    """
    waiting = iter(enumerate(order))
    arrivals = [(0, number, run, 0) for number, run in islice(waiting, workers)]  # (time, started as, run, step)
    stopped: dict[str, int] = {}
    while arrivals:
        now, number, run, step = heapq.heappop(arrivals)
        curve, end = curves[run], max(curves[run])
        if step == end or (step and not asha.decide(run, step, curve[step])):
            if step < end:
                stopped[run] = step
            if (following := next(waiting, None)) is not None:
                heapq.heappush(arrivals, (now, *following, 0))
        else:
            after = next((rung for rung in asha.rungs if step < rung < end), end)
            heapq.heappush(arrivals, (now + after - step, number, run, after))
    return stopped


def spent(curves: Curves, stopped: Mapping[str, int]) -> float:
    """Share of the full compute until the runs ended or were stopped."""
    return sum(stopped.get(run, max(curve)) for run, curve in curves.items()) / sum(max(curve) for curve in curves.values())


def _measures(replays: Sequence[Mapping[str, int]], curves: Curves, best: Sequence[str]) -> dict[str, Any]:
    """Returns the columns of a reduction factor. best: the best runs, the very best first."""
    shares = sorted(spent(curves, stopped) for stopped in replays)
    last = len(shares) - 1
    kept = [sum(run not in stopped for run in best) for stopped in replays]
    found = {
        "share": shares[last // 2],
        "low": shares[round(0.05 * last)],
        "high": shares[round(0.95 * last)],
        "best_kept": fmean(best[0] not in stopped for stopped in replays),
        "top_kept": fmean(number == len(best) for number in kept),
        "kept_of_top": fmean(kept),
    }
    return {name: round(value, 4) for name, value in found.items()}


def _survival(replays: Sequence[Mapping[str, int]], subject: Subject) -> dict[str, Any]:
    rungs = sorted(stopped[subject.row.id] for stopped in replays if subject.row.id in stopped)
    low, high = (rungs[0], rungs[-1]) if rungs else (None, None)
    return subject.columns | {"survived": round(1 - len(rungs) / len(replays), 4), "low": low, "high": high}


def draw(curves: Curves, metric: str, figure: Figure, records: Records) -> None:
    """Draws the validation curves, the paler the more orders of the first reduction factor stop the run."""
    (axes,) = figures.panels(figure, 1, height=2.6)
    factor = records[0]["reduction_factor"]
    survival = [r for r in records if "row" in r and r["reduction_factor"] == factor]
    for r, style in zip(survival, figures.styles(survival).values(), strict=True):
        look = style.line(alpha=0.25 + 0.75 * r["survived"], label=f"{style.name}: {r['survived']:.0%}")
        axes.plot(*zip(*sorted(curves[r["row"]].items()), strict=True), **look)
    axes.set(xlabel="updates", ylabel=metric, title=f"runs that survive a reduction factor of {factor}")
    axes.grid()
    figures.legend(figure, axes.get_legend_handles_labels()[0])
