"""What ASHA spends and loses on a grid that ran in full: its decisions replayed over the recorded validations, in many orders of start.

For each reduction factor: the share of the full grid's compute, how often the best run and all of the best `top` survive, and which runs
are stopped. `decisions`: the file of a sweep that ran under ASHA (results/sweeps/NAME.asha.json), judged by the same full runs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from orchestrator.analysis import asha_figure
from orchestrator.analysis.base import Analysis, Context, Subject, choice, numbers
from orchestrator.analysis.options import whole
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown
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
}
"""rank: what the best are judged by, metric (at the end of the full run) or bleu (of the test set). rungs: steps, or auto: T/r, T/r^2, ..
cost: of one update, updates (all cost the same) or seconds (each run's own, as measured). orders: shuffles, from `seed`."""
COLUMNS = ["measure", "reduction_factor", "rungs", "row", "label", "seed", "value", "low", "high", "orders"]
METRICS = ("valid/nll", "valid/ppl", "valid/accuracy")


def analyse(context: Context) -> Analysis:
    """Records by `measure`: share, best_kept, top_kept, kept_of_top of each factor; survived, of each row; the same with `_real`, of a
    sweep's own decisions; value of one validation. UserError where fewer than two rows have a history."""
    metric = choice("metric", context.options["metric"], METRICS)
    mode = "max" if metric == "valid/accuracy" else "min"
    top, orders, workers, seed = (whole(context, name, least) for name, least in (("top", 1), ("orders", 1), ("workers", 1), ("seed", 0)))
    notes: list[str] = []
    curves: dict[str, Curve] = {}
    first: dict[str, str] = {}
    for subject in context.subjects:
        if (same := first.setdefault(subject.train_key, subject.row.id)) != subject.row.id:
            notes.append(f"{subject.row.id}: the training of {same}; a sweep trains it once")
            continue
        curve = _curve(context, subject, metric, notes)
        if curve is not None:
            curves[subject.row.id] = curve
    if len(curves) < 2:
        raise UserError(*notes, f"found {len(curves)} rows with validations; expected at least 2 to compare")
    subjects = {s.row.id: s for s in context.subjects if s.row.id in curves}
    best = _best(context, subjects, curves, mode, notes)
    if top > len(best):
        raise UserError(f"--option top={top}: expected at most {len(best)}, the rows that can be ranked")
    pinned = {run for run, subject in subjects.items() if subject.row.pinned}
    records: list[dict[str, Any]] = []
    for factor in numbers("reduction_factor", context.options["reduction_factor"], least=2):
        rungs = _rungs(context, curves, factor)
        many = []
        for order in _orders(list(curves), pinned, orders, seed):
            many.append(replay(curves, Asha(rungs, float(factor), mode, pinned), order, workers))
        records += _measures(many, best, top, {"reduction_factor": factor, "rungs": _text(rungs)})
        records += _survival(many, subjects, {"reduction_factor": factor, "rungs": _text(rungs)})
    real = _real(context, curves)
    if real is not None:
        file, found = real
        records += _measures([found], best, top, {"rungs": file}, suffix="_real")
        records += _survival([found], subjects, {"rungs": file}, suffix="_real")
    records += [
        {"measure": metric, "row": run, "label": subjects[run].label, "seed": subjects[run].spec.seed, "rungs": str(step), "value": value}
        for run, curve in curves.items()
        for step, value in sorted(curve.values.items())
    ]
    notes += [
        f"replayed: {len(curves)} full runs, {orders:,} orders of start from seed {seed}, {workers} at a time; pinned: {len(pinned)}",
        f"the best {top}: {', '.join(_short(run) for run in best[:top])}, by {_by(context, metric)} of the full runs",
    ]
    draw = partial(asha_figure.draw, records, metric, top)
    shown_columns = ["measure", "reduction_factor", "rungs", "row", "value", "low", "high"]
    return Analysis("asha", COLUMNS, records, draw, notes, summary(records, top), shown=shown_columns)


def summary(records: Sequence[Mapping[str, Any]], top: int) -> list[str]:
    lines = []
    for suffix in ("", "_real"):
        keys = dict.fromkeys((r.get("reduction_factor"), r["rungs"]) for r in records if r["measure"] == f"share{suffix}")
        for factor, rungs in keys:
            own = {r["measure"]: r for r in records if (r.get("reduction_factor"), r["rungs"]) == (factor, rungs)}
            share = own[f"share{suffix}"]
            spread = "" if share["low"] == share["high"] else f" ({share['low']:.0%} to {share['high']:.0%} of 90% of the orders)"
            what = f"a sweep's own decisions ({rungs})" if suffix else f"reduction factor {factor}, rungs {rungs}"
            lines.append(
                f"{what}: {share['value']:.0%} of the full grid's compute{spread}; the best run kept in "
                f"{own[f'best_kept{suffix}']['value']:.0%}, all of the best {top} in {own[f'top_kept{suffix}']['value']:.0%} of the orders"
            )
    return lines


def _curve(context: Context, subject: Subject, metric: str, notes: list[str]) -> Curve | None:
    """Validations by step, of a run that is done."""
    about = f"{subject.row.id} seed {subject.spec.seed}"
    record = context.ledger.read_train(subject.train_key) or {}
    values: dict[int, float] = {}
    for report in context.ledger.history(subject.train_key):
        value = number(report.get(metric))
        if value is not None:
            values[int(report["step"])] = value
    if record.get("status") != "done" or not values:
        notes.append(f"{about}: {'its history has no ' + metric if values == {} else 'it did not run to its end'}; left out")
        return None
    steps = max(values)
    seconds = number(record.get("seconds"))
    if choice("cost", context.options["cost"], ("updates", "seconds")) == "updates":
        return Curve(values)
    if not seconds:
        notes.append(f"{about}: its seconds are not recorded; left out")
        return None
    return Curve(values, seconds / steps)


def _best(context: Context, subjects: Mapping[str, Subject], curves: Mapping[str, Curve], mode: str, notes: list[str]) -> list[str]:
    """Runs from the best to the worst of the full grid."""
    if choice("rank", context.options["rank"], ("metric", "bleu")) == "metric":
        sign = 1.0 if mode == "min" else -1.0
        return sorted(curves, key=lambda run: sign * curves[run].final)
    scores = {run: number((context.scored(subject) or {}).get("bleu")) for run, subject in subjects.items()}
    notes += [f"{run}: it has no BLEU: it is not among the ranked" for run, value in scores.items() if value is None]
    return sorted((run for run, value in scores.items() if value is not None), key=lambda run: -(scores[run] or 0.0))


def _by(context: Context, metric: str) -> str:
    return metric if context.options["rank"] == "metric" else "BLEU on the test set"


def _rungs(context: Context, curves: Mapping[str, Curve], factor: int) -> list[int]:
    """UserError for a step at which not every run was validated, and where there is none."""
    text = context.options["rungs"]
    if text == "auto":
        found = rungs_of(curves, factor)
        if not found:
            raise UserError(f"--option reduction_factor={factor}: no validation of all runs is near T/{factor}; expected rungs=STEP,STEP")
        return found
    wanted = numbers("rungs", text, least=1)
    lacking = [(step, run) for step in wanted for run, curve in curves.items() if step < curve.steps and step not in curve.values]
    if lacking:
        raise UserError(f"--option rungs={shown(text)}: {lacking[0][1]} was not validated at step {lacking[0][0]}")
    return sorted(wanted)


def _orders(runs: list[str], pinned: set[str], count: int, seed: int) -> list[list[str]]:
    """As a sweep starts them: pinned ones first, the rest shuffled."""
    generator = random.Random(seed)
    first, rest = [run for run in runs if run in pinned], [run for run in runs if run not in pinned]
    return [first + generator.sample(rest, len(rest)) for _ in range(count)]


def _measures(many: Sequence[Replay], best: Sequence[str], top: int, about: Mapping[str, Any], suffix: str = "") -> list[dict[str, Any]]:
    """low, high: between which nine of ten orders lie."""
    shares = sorted(r.share for r in many)
    kept = [sum(run not in r.stopped for run in best[:top]) for r in many]
    last = len(shares) - 1
    found = {
        "share": (shares[last // 2], shares[round(0.05 * last)], shares[round(0.95 * last)]),
        "best_kept": (fmean(best[0] not in r.stopped for r in many), None, None),
        "top_kept": (fmean(number_kept == top for number_kept in kept), None, None),
        "kept_of_top": (fmean(kept), min(kept), max(kept)),
    }
    return [
        dict(about) | {"measure": name + suffix, "value": _round(value), "low": _round(low), "high": _round(high), "orders": len(many)}
        for name, (value, low, high) in found.items()
    ]


def _survival(many: Sequence[Replay], subjects: Mapping[str, Subject], about: Mapping[str, Any], suffix: str = "") -> list[dict[str, Any]]:
    """In which share of the orders each run goes on to its end; low, high: the first and the last rung that stopped it."""
    found = []
    for run, subject in subjects.items():
        ends = sorted(r.stopped[run] for r in many if run in r.stopped)
        value = {"value": _round(1 - len(ends) / len(many)), "low": ends[0] if ends else None, "high": ends[-1] if ends else None}
        names = {"row": run, "label": subject.label, "seed": subject.spec.seed}
        found.append(dict(about) | {"measure": f"survived{suffix}", "orders": len(many)} | names | value)
    return found


def _real(context: Context, curves: Mapping[str, Curve]) -> tuple[str, Replay] | None:
    """(file's name, what a sweep's own decisions spent). UserError for a file that is none of ASHA, or of other rows."""
    text = context.options["decisions"]
    if text == "none":
        return None
    try:
        rungs = json.loads(Path(text).read_text())["rungs"]
        ended = {r["run"]: int(rung) for rung, records in rungs.items() for r in records if not r["continue"]}
        seen = {r["run"].rpartition(":")[0] for records in rungs.values() for r in records}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--option decisions={shown(text)}: found no decisions of ASHA; expected RESULTS/sweeps/NAME.asha.json") from error
    if seen != set(curves):
        other = sorted(seen ^ set(curves))[0]
        raise UserError(f"--option decisions={shown(text)}: it is of other rows: {other} is in one of them only")
    stopped = {run.rpartition(":")[0]: rung for run, rung in ended.items()}
    spent = {run: stopped.get(run, curve.steps) * curve.cost for run, curve in curves.items()}
    return Path(text).name, Replay(stopped, spent, sum(curve.steps * curve.cost for curve in curves.values()))


def _text(rungs: Sequence[int]) -> str:
    return " ".join(str(rung) for rung in rungs)


def _short(run: str) -> str:
    return run.partition("/")[2]


def _round(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
