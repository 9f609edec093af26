"""The change of an effect with model size, and its equivalent in compute of the baseline.

The curve L(C) = Linf + A C^-a is fitted to the baseline's sizes by least squares (the form of Hoffmann et al. 2022 in compute). A row's
compute-equivalent speed-up is C_b(L) / C: the compute with which the baseline reaches the row's loss, divided by the row's compute.
Shapes: S sizes, D draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.ledger.statistics import Floats
from orchestrator.scoring.significance.estimator import DRAW, LEVEL, RESAMPLES, Answer, answer

EXPONENTS = np.linspace(0.02, 2.0, 397)  # candidates of a; the best is taken
LEAST_SIZES = 3  # minimum for a curve, which has three parameters


@dataclass(frozen=True)
class Loss:
    """Mean loss of a row's seeds at one size, the standard error of this mean, and the cost of one training on `machines`."""

    mean: float
    se: float
    compute: float
    seconds: float
    machines: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class SpeedUp:
    """C_b(L) / C with its interval over seeds; infinite if the baseline's curve does not reach the loss.

    time: the ratio in seconds at the measured speeds; None for runs of several machines. beyond: C_b(L) is outside of the baseline's sizes.
    """

    compute: float
    low: float
    high: float
    time: float | None
    beyond: bool


def slope(sizes: Sequence[float], deltas: Sequence[float], effects: Sequence[Answer]) -> tuple[float, Answer] | None:
    """Returns the change of an effect per doubling of size, by weighted least squares on log2 of the size; None for less than two sizes.

    The effects count as independent. Shared test sentences widen the interval somewhat. Its degrees of freedom are the effects' minimum."""
    if len(set(sizes)) < 2 or any(each.se == 0 for each in effects):
        return None
    x, y, weight = np.log2(sizes), np.asarray(deltas), np.asarray([1 / each.se**2 for each in effects])
    centred = x - np.average(x, weights=weight)
    information = float((weight * centred**2).sum())
    found = float((weight * centred * y).sum()) / information
    return found, answer(found, 1 / information, min(each.df for each in effects))


def speed_up(baseline: Sequence[Loss], row: Loss, at: int) -> SpeedUp | None:
    """Returns the speed-up of a row at the baseline's size `at`; None for less than three sizes, or if losses do not clearly fall.

    Losses do not clearly fall if over 2.5 % of the draws over seeds have no curve that falls with compute."""
    if len({each.compute for each in baseline}) < LEAST_SIZES:
        return None
    compute = np.asarray([each.compute for each in baseline])
    generator = np.random.default_rng(DRAW)
    losses = np.asarray([each.mean for each in baseline])
    drawn = losses + generator.standard_normal((RESAMPLES, len(baseline))) * [each.se for each in baseline]
    ours = row.mean + np.concatenate([[0.0], generator.standard_normal(RESAMPLES) * row.se])
    needed = _compute_at(compute, np.vstack([losses, drawn]), ours)
    known = needed[1:][~np.isnan(needed[1:])] / row.compute
    if math.isnan(needed[0]) or len(known) < (1 - LEVEL / 2) * RESAMPLES:
        return None
    low, high = np.quantile(known, [LEVEL / 2, 1 - LEVEL / 2], method="nearest")  # interpolation would fail between infinities
    found = float(needed[0])
    here = baseline[at]
    time = found / here.compute * here.seconds / row.seconds if len(here.machines | row.machines) < 2 else None
    return SpeedUp(found / row.compute, float(low), float(high), time, not compute.min() <= found <= compute.max())


def _compute_at(compute_S: Floats, losses_DS: Floats, loss_D: Floats) -> Floats:
    """Returns C_b(loss) [D] on the curves fitted to the losses; infinite below Linf, nan if no curve falls."""
    relative = compute_S / compute_S[0]
    best = np.full(len(losses_DS), np.inf)
    needed = np.full(len(losses_DS), np.nan)
    mean_D = losses_DS.mean(axis=1)
    for exponent in EXPONENTS:
        x_S = relative**-exponent
        centred = x_S - x_S.mean()
        scale_D = (losses_DS - mean_D[:, None]) @ centred / (centred @ centred)
        floor_D = mean_D - scale_D * x_S.mean()
        error_D = ((losses_DS - floor_D[:, None] - scale_D[:, None] * x_S) ** 2).sum(axis=1)
        better = (error_D < best) & (scale_D > 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.maximum(loss_D - floor_D, 0.0) / scale_D
            needed = np.where(better, compute_S[0] * share ** (-1 / exponent), needed)
        best = np.where(better, error_D, best)
    return needed
