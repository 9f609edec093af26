"""The points of learning curves, thinned, by seed and as the mean over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from orchestrator.report.page.section import Section
from orchestrator.tracking.history import number

METRICS = {"valid/nll": "validation nll", "train/nll": "training nll", "valid/bleu": "validation BLEU"}
MOST_POINTS = 40
"""Points of one curve on the page: a page of 100 rows and three seeds stays below 5 MB."""
Point = dict[str, Any]


def points(section: Section, order: Sequence[str]) -> list[Point]:
    """{"r": place of the row in `order`, "v": "seed" or "mean", "s": seed, "m": metric, "x": update, "y": value, "l", "h": least and most}.

    Runs that did not finish are among them: their curves say why.
    """
    found: list[Point] = []
    for place, row_id in enumerate(order):
        curves: dict[str, dict[int, list[tuple[int, float]]]] = {}
        for outcome in section.outcomes.get(row_id, ()):
            if outcome.keys.train is None:
                continue
            for metric, curve in _curves(section, outcome.keys.train).items():
                curves.setdefault(metric, {})[outcome.seed] = thinned(curve)
        for metric, seeds in curves.items():
            about = {"r": place, "m": METRICS[metric]}
            for seed, curve in seeds.items():
                found += [about | {"v": "seed", "s": seed, "x": x, "y": round(y, 4)} for x, y in curve]
            found += [about | point for point in _mean(list(seeds.values()))]
    return found


def _curves(section: Section, key: str) -> dict[str, list[tuple[int, float]]]:
    ledger = section.finder.ledger
    reports = {int(report["step"]): report for report in ledger.history(key)}
    for step, rung in ledger.read_rungs(key).items():
        reports[step] = {**rung, **reports.get(step, {})}
    found: dict[str, list[tuple[int, float]]] = {}
    for step in sorted(reports):
        for metric in METRICS:
            if (value := number(reports[step].get(metric))) is not None:
                found.setdefault(metric, []).append((step, value))
    return found


def thinned(curve: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> list[tuple[int, float]]:
    """At most `most` points at even distances, the first and the last among them."""
    if len(curve) <= most:
        return list(curve)
    return [curve[round(i * (len(curve) - 1) / (most - 1))] for i in range(most)]


def _mean(curves: Sequence[Sequence[tuple[int, float]]]) -> list[Point]:
    """The mean at steps that all seeds have."""
    by_step = [dict(curve) for curve in curves]
    steps = sorted(set(by_step[0]).intersection(*by_step[1:]))
    values = {step: [each[step] for each in by_step] for step in steps}
    return [
        {"v": "mean", "x": step, "y": round(statistics.fmean(own), 4), "l": round(min(own), 4), "h": round(max(own), 4)}
        for step, own in values.items()
    ]
