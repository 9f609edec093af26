"""Cost and losses of ASHA on a grid that was trained in full, by replaying its decisions on recorded validations in many start orders.

For each reduction factor: the share of the full grid's compute, how often the best run and all of the best `top` survive, and which runs
are stopped. `decisions` is the file of a sweep that ran under ASHA (results/sweeps/NAME.asha.json), compared with the same full runs.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from orchestrator.analysis.asha_figure import draw
from orchestrator.analysis.asha_measures import same_rungs, shares
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject
from orchestrator.analysis.registry import register
from orchestrator.errors import UserError
from orchestrator.report import noise_floor
from orchestrator.specs.baselines import baseline
from orchestrator.specs.positions import shown
from orchestrator.specs.row import Row
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.asha_replay import Curve, Replay, replay, rungs_of
from orchestrator.tracking.history import number

OPTIONS = {
    "metric": "valid/nll",
    "rank": "metric",
    "rungs": "auto",
    "reduction_factor": "2,3,4",
    "top": "3",
    "orders": "1000",
    "workers": "2",
    "seed": "1",
    "cost": "updates",
    "decisions": "none",
    "tolerance": "0",
}
"""rank: rank the full runs by metric (at their end) or by bleu (on the test set). rungs: steps, or auto for T/r, T/r^2, ... cost: `updates`
(all updates cost the same) or `seconds` (each run's measured time per update). orders: number of shuffles, drawn with `seed`.
tolerance: as in `sweep.scheduler`, a number or noise."""
SHOWN = ["measure", "reduction_factor", "rungs", "row", "value", "low", "high"]
METRICS = ("valid/nll", "valid/ppl", "valid/accuracy")


@register("asha", options=OPTIONS)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns records by `measure`: share, best_kept, top_kept and kept_of_top per factor, survived per row, and each validation's value.

    The suffix `_real` marks the measures of a sweep's own decisions. Raises UserError if fewer than two rows have a history.
    """
    metric = context.choice("metric", *METRICS)
    mode = "max" if metric == "valid/accuracy" else "min"
    top, orders, workers, seed = (context.integer(name, least) for name, least in (("top", 1), ("orders", 1), ("workers", 1), ("seed", 0)))
    notes: list[str] = []
    curves = _curves(context, metric, notes)
    subjects = {s.row.id: s for s in context.subjects if s.row.id in curves}
    best = _best(context, subjects, curves, mode, notes)
    if top > len(best):
        raise UserError(f"--option top={top}: expected at most {len(best)}, the rows that can be ranked")
    pinned = {run for run, subject in subjects.items() if subject.row.pinned}
    records: Records = []
    for factor in context.numbers("reduction_factor", least=2):
        rungs = _rungs(context, curves, factor)
        tolerance = _tolerance(context, [subject.row for subject in subjects.values()], metric, rungs)
        scheduler = partial(Asha, rungs, float(factor), mode, pinned, tolerance=tolerance)
        replays = [replay(curves, scheduler(), order, workers) for order in _orders(list(curves), pinned, orders, seed)]
        columns = {"reduction_factor": factor, "rungs": " ".join(str(rung) for rung in rungs)}
        records += _measures(replays, best, top, columns) + _survival(replays, subjects, columns)
    real = _real_decisions(context, curves)
    if real is not None:
        columns = {"rungs": Path(context.options["decisions"]).name}
        records += _measures([real], best, top, columns, suffix="_real") + _survival([real], subjects, columns, suffix="_real")
    for run, curve in curves.items():
        points = sorted(curve.values.items())
        records += [subjects[run].columns | {"measure": metric, "rungs": str(step), "value": value} for step, value in points]
    ranked_by = metric if context.options["rank"] == "metric" else "BLEU on the test set"
    notes += [
        f"replayed: {len(curves)} full runs, {orders:,} orders of start from seed {seed}, {workers} at a time; pinned: {len(pinned)}",
        f"the best {top}: {', '.join(run.partition('/')[2] for run in best[:top])}, by {ranked_by} of the full runs",
    ]
    return Analysis("asha", records, partial(draw, records, metric, top), notes, summary(records, top), SHOWN)


def summary(records: Records, top: int) -> list[str]:
    lines = []
    for share, suffix in shares(records):
        own = same_rungs(records, share)
        spread = "" if share["low"] == share["high"] else f" ({share['low']:.0%} to {share['high']:.0%} of 90% of the orders)"
        rungs = share["rungs"]
        what = f"a sweep's own decisions ({rungs})" if suffix else f"reduction factor {share['reduction_factor']}, rungs {rungs}"
        lines.append(
            f"{what}: {share['value']:.0%} of the full grid's compute{spread}; the best run kept in "
            f"{own[f'best_kept{suffix}']['value']:.0%}, all of the best {top} in {own[f'top_kept{suffix}']['value']:.0%} of the orders"
        )
    return lines


def _curves(context: AnalysisContext, metric: str, notes: list[str]) -> dict[str, Curve]:
    """Maps each row to the validations of its training. A training shared by several rows counts once, as in a sweep."""
    curves: dict[str, Curve] = {}
    first: dict[str, str] = {}
    cost = context.choice("cost", "updates", "seconds")
    for subject in context.subjects:
        if (same := first.setdefault(subject.train_key, subject.row.id)) != subject.row.id:
            notes.append(f"{subject.row.id}: the training of {same}; a sweep trains it once")
            continue
        record, values = context.train_record(subject), dict(context.curve(subject, metric))
        seconds = number(record.get("seconds"))
        if not values:
            notes.append(f"{subject.name}: its history has no {metric}; left out")
        elif record.get("status") != "done":
            notes.append(f"{subject.name}: it did not run to its end; left out")
        elif cost == "updates":
            curves[subject.row.id] = Curve(values)
        elif seconds:
            curves[subject.row.id] = Curve(values, seconds / max(values))
        else:
            notes.append(f"{subject.name}: its seconds are not recorded; left out")
    if len(curves) < 2:
        raise UserError(*notes, f"found {len(curves)} rows with validations; expected at least 2 to compare")
    return curves


def _best(context: AnalysisContext, subjects: Mapping[str, Subject], curves: Mapping[str, Curve], mode: str, notes: list[str]) -> list[str]:
    """Ranks the runs of the full grid, best first."""
    if context.choice("rank", "metric", "bleu") == "metric":
        sign = 1.0 if mode == "min" else -1.0
        return sorted(curves, key=lambda run: sign * curves[run].final)
    scores: dict[str, float] = {}
    for run, subject in subjects.items():
        bleu = number(context.score_record(subject).get("bleu"))
        if bleu is None:
            notes.append(f"{run}: it has no BLEU: it is not among the ranked")
        else:
            scores[run] = bleu
    return sorted(scores, key=lambda run: -scores[run])


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


def _tolerance(context: AnalysisContext, rows: list[Row], metric: str, rungs: list[int]) -> float | dict[str, float]:
    """Returns the option's number, or each rung's tolerance from the noise floor of the rows' baseline."""
    text = context.options["tolerance"]
    if text == "noise":
        base = next(row for row in rows if row.id == baseline(rows))
        return noise_floor.tolerance(context.ledger, base, metric, rungs, base.id)
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise UserError(f"--option tolerance={shown(text)}: expected a number >= 0, or noise")


def _orders(runs: list[str], pinned: set[str], count: int, seed: int) -> list[list[str]]:
    """Returns start orders as in a sweep: pinned runs first, the rest shuffled."""
    generator = random.Random(seed)
    first, rest = [run for run in runs if run in pinned], [run for run in runs if run not in pinned]
    return [first + generator.sample(rest, len(rest)) for _ in range(count)]


def _measures(replays: Sequence[Replay], best: Sequence[str], top: int, columns: Mapping[str, Any], suffix: str = "") -> Records:
    """Returns the share and survival measures; `low` and `high` of the share cover 90% of the orders."""
    shares = sorted(r.share for r in replays)
    kept = [sum(run not in r.stopped for run in best[:top]) for r in replays]
    last = len(shares) - 1
    values = {
        "share": (shares[last // 2], shares[round(0.05 * last)], shares[round(0.95 * last)]),
        "best_kept": (fmean(best[0] not in r.stopped for r in replays), None, None),
        "top_kept": (fmean(number_kept == top for number_kept in kept), None, None),
        "kept_of_top": (fmean(kept), min(kept), max(kept)),
    }
    records: Records = []
    for name, figures_ in values.items():
        value, low, high = (None if x is None else round(float(x), 4) for x in figures_)
        records.append({**columns, "measure": name + suffix, "value": value, "low": low, "high": high, "orders": len(replays)})
    return records


def _survival(replays: Sequence[Replay], subjects: Mapping[str, Subject], columns: Mapping[str, Any], suffix: str = "") -> Records:
    """Returns the share of orders in which each run reaches its end; `low` and `high` are the first and last rung that stopped it."""
    records: Records = []
    for run, subject in subjects.items():
        rungs = sorted(r.stopped[run] for r in replays if run in r.stopped)
        record = {**columns, "measure": f"survived{suffix}", "orders": len(replays), **subject.columns}
        record["value"] = round(1 - len(rungs) / len(replays), 4)
        records.append(record | {"low": rungs[0] if rungs else None, "high": rungs[-1] if rungs else None})
    return records


def _real_decisions(context: AnalysisContext, curves: Mapping[str, Curve]) -> Replay | None:
    """Reads the decisions of a sweep and their cost, None without any. Raises UserError for a file that is not ASHA's or has other rows."""
    text = context.options["decisions"]
    if text == "none":
        return None
    try:
        rungs = json.loads(Path(text).read_text())["rungs"]
        stopped = {r["run"].rpartition(":")[0]: int(rung) for rung, rows in rungs.items() for r in rows if not r["continue"]}
        runs = {r["run"].rpartition(":")[0] for rows in rungs.values() for r in rows}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--option decisions={shown(text)}: found no decisions of ASHA; expected RESULTS/sweeps/NAME.asha.json") from error
    if runs != set(curves):
        other = sorted(runs ^ set(curves))[0]
        raise UserError(f"--option decisions={shown(text)}: it is of other rows: {other} is in one of them only")
    spent = {run: stopped.get(run, curve.steps) * curve.cost for run, curve in curves.items()}
    return Replay(stopped, spent, sum(curve.steps * curve.cost for curve in curves.values()))
