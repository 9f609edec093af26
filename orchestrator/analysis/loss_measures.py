"""Speed of convergence from the loss curves of two rows (Shen et al. 2018, sections 5.1-5.2): epochs to the baseline's best loss and to the
first cut of the learning rate, and the time saved.

The time saved is computed as in the paper: one minus the ratio of epochs divided by the ratio of words per second. For example, 13 epochs
instead of 20 at 1571 instead of 1710 words/s save 1 - (13 / 20) / (1571 / 1710) = 29.3% of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.loss_history import Losses, LossPoint


@dataclass(frozen=True)
class Measure:
    """A named measure. If `value` is None, `why` gives the reason. step: the update at which it was reached."""

    name: str
    value: float | None
    why: str = ""
    step: int | None = None


@dataclass(frozen=True)
class RowCurves:
    """The losses of a row, the whole run and the part that is compared. speed: training speed relative to the baseline, None if unknown.

    limited: whether the run ended at `max_steps` or `max_epochs` instead of by its schedule.
    """

    whole: Losses
    part: Losses
    words_per_second: float | None
    speed: float | None
    limited: bool = False


def measures(row: RowCurves, base: RowCurves, *, is_baseline: bool) -> list[Measure]:
    """Returns the measures of a row against the baseline. The baseline itself has no measures of savings."""
    goal = base.part.best().valid
    ends: list[tuple[str, Callable[[RowCurves], LossPoint | None], str]] = [
        ("baseline_loss", lambda r: r.part.reaches(goal), "not reached"),
        ("first_cut", lambda r: r.whole.cut, "no cut within the run"),
        ("end", lambda r: None if r.limited else r.whole.points[-1], "ended at its limit of updates or epochs"),
    ]
    best = row.part.best()
    found = [Measure("best_valid_nll", best.valid, step=best.step)]
    for name, end, missing in ends:
        ours, theirs = end(row), end(base)
        if ours is None:
            found += [Measure(f"{unit}_to_{name}", None, missing) for unit in ("updates", "epochs")]
        else:
            found.append(Measure(f"updates_to_{name}", ours.step, step=ours.step))
            found.append(Measure(f"epochs_to_{name}", ours.epochs, "" if ours.epochs is not None else "no whole epoch", ours.step))
        if not is_baseline:
            found += _saved(name, ours, theirs, missing, row.speed)
    found.append(Measure("words_per_second", row.words_per_second, "" if row.words_per_second else "not in its record"))
    if not is_baseline:
        found.append(Measure("speed_ratio", row.speed, "" if row.speed else "no speed of both"))
        for data in ("train", "valid"):
            share = below(row.part.points, base.part.points, data)
            found.append(Measure(f"{data}_below_baseline_pct", share, "" if share is not None else "nothing in common"))
    return found


def _saved(name: str, ours: LossPoint | None, theirs: LossPoint | None, missing: str, speed: float | None) -> list[Measure]:
    """Returns the savings in percent of the baseline's epochs and of its time; negative if the row needs more."""
    epochs = time = None
    why = missing if ours is None else f"the baseline: {missing}" if theirs is None else "no whole epoch"
    if ours is not None and theirs is not None and ours.epochs is not None and theirs.epochs:
        ratio, why = ours.epochs / theirs.epochs, ""
        epochs = 100.0 * (1.0 - ratio)
        time = None if not speed else 100.0 * (1.0 - ratio / speed)
    slow = "no speed of both" if epochs is not None and time is None else why
    return [Measure(f"epochs_saved_to_{name}_pct", epochs, why), Measure(f"time_saved_to_{name}_pct", time, slow)]


def below(row: Sequence[LossPoint], base: Sequence[LossPoint], data: str) -> float | None:
    """Returns the percentage of the row's validations whose loss is below the baseline's curve, interpolated by epochs, else by updates.

    Validations outside the range of the baseline's curve do not count. Returns None if there are no others.
    """
    ours, theirs = (_line(points, data, "epochs") for points in (row, base))
    if not ours or not theirs:
        ours, theirs = (_line(points, data, "step") for points in (row, base))
    if not theirs:
        return None
    inside = [(x, y) for x, y in ours if theirs[0][0] <= x <= theirs[-1][0]]
    base_x, base_y = zip(*theirs, strict=True)
    lower = [bool(y < np.interp(x, base_x, base_y)) for x, y in inside]
    return 100.0 * sum(lower) / len(lower) if lower else None


def _line(points: Sequence[LossPoint], data: str, axis: str) -> list[tuple[float, float]]:
    pairs = [(getattr(p, axis), getattr(p, data)) for p in points]
    return [(x, y) for x, y in pairs if x is not None and y is not None]
