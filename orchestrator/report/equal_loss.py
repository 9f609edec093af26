"""How much compute the baseline would need to reach a row's loss, relative to the row's own: above 1 the row is ahead.

The loss of the baseline as a function of its compute is a power law L = L_b (C / C_b)^-b through its own run and its controls of kind
`flops`, the same model trained for other budgets. With rates measured in one run (`analyse --kind speed`) compute is time, else
operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from orchestrator.report.effects import Effects, Outcomes
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.specs.row import Row
from orchestrator.sweeps.cost import Cost

LEAST_RANGE = 1.05
"""Ratio of the largest to the smallest compute of the baseline from which its power law is fitted."""
NAME = "compute_to_equal_loss"


def ratios(
    rows: Sequence[Row],
    outcomes: Outcomes,
    start: Mapping[str, str],
    reader: StatisticsReader,
    costs: Callable[[Row], Cost],
    ours: Mapping[str, Mapping[str, Any] | None],
) -> dict[str, float]:
    """Row -> ratio, for rows whose baseline has a control with another budget. The loss is the test nll, mean over seeds.

    costs: of a row. ours: measured figures, for `train_speed` (updates per second relative to the baseline).
    """
    arms = Effects(rows, outcomes, reader, "nll").arms
    loss = {row_id: float(arm.scores.mean()) for row_id, arm in arms.items()}
    known = {row.id: costs(row) for row in rows if row.id in loss}
    compute = {row.id: total for row in rows if row.id in loss and (total := _whole(row, costs)) is not None}
    found = {}
    for row in rows:
        base = start.get(row.id)
        if base is None or row.control is not None or row.id not in compute or base not in compute:
            continue
        budgets = [base, *(c.id for c in rows if c.control is not None and (c.control.kind, c.control.of) == ("flops", base))]
        slope = _slope([(compute[each], loss[each]) for each in budgets if each in compute])
        if slope is not None:
            needed = compute[base] * (loss[row.id] / loss[base]) ** (1 / slope)
            found[row.id] = needed / compute[row.id] * _utilisation(row, base, known, ours)
    return found


def _whole(row: Row, costs: Callable[[Row], Cost]) -> float | None:
    """Operations of a row's training and of those that it starts from."""
    own, before = costs(row).flop, 0.0 if row.parent is None else _whole(row.parent, costs)
    return None if own is None or before is None else own + before


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """The exponent of the power law through (compute, loss), negative; None without two budgets or where more compute does not help."""
    budgets = [compute for compute, _ in points]
    if not points or max(budgets) < LEAST_RANGE * min(budgets):
        return None
    slope = float(np.polyfit(np.log(budgets), [math.log(loss) for _, loss in points], 1)[0])
    return slope if slope < 0 else None


def _utilisation(row: Row, base: str, known: Mapping[str, Cost], ours: Mapping[str, Mapping[str, Any] | None]) -> float:
    """Operations per second of the row relative to the baseline's; 1 where speeds were not measured in one run or the row has a parent."""
    speed, reference = (ours.get(row.id) or {}).get("train_speed"), (ours.get(base) or {}).get("train_speed")
    own, other = known[row.id].flop_update, known[base].flop_update
    if speed is None or reference != 1.0 or row.parent is not None or own is None or other is None:
        return 1.0
    return float(speed) * own / other
