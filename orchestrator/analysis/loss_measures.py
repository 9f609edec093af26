"""What the loss curves of two rows say of speed (Shen et al. 2018, sections 5.1-5.2): epochs to the baseline's loss and to the first cut of
the rate, and the time that is saved.

Time is reckoned as the paper does: epochs saved, over the ratio of words a second. 13 epochs for 20 at 1571 words/s for 1710 are
1 - (13 / 20) / (1571 / 1710) = 29.3% less time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.analysis.loss_history import Losses, Point


@dataclass(frozen=True)
class Measure:
    """value: None where there is none; `why` says so then. step: where it happened."""

    name: str
    value: float | None
    why: str = ""
    step: int | None = None


@dataclass(frozen=True)
class Runner:
    """A row's losses, whole and as far as they are looked at. speed: its training speed over the baseline's, None where unknown.

    limited: it ended at `max_steps` or `max_epochs`, not because its schedule was through.
    """

    whole: Losses
    seen: Losses
    words_per_second: float | None
    speed: float | None
    limited: bool = False


def measures(row: Runner, base: Runner, *, own: bool) -> list[Measure]:
    """Of a row against the baseline; `own`: it is the baseline itself, so that nothing is saved."""
    goal = base.seen.best().valid
    ends: list[tuple[str, Callable[[Runner], Point | None], str]] = [
        ("baseline_loss", lambda r: r.seen.reaches(goal), "not reached"),
        ("first_cut", lambda r: r.whole.cut, "no cut within the run"),
        ("end", lambda r: None if r.limited else r.whole.points[-1], "ended at its limit of updates or epochs"),
    ]
    best = row.seen.best()
    found = [Measure("best_valid_nll", best.valid, step=best.step)]
    for name, end, lacking in ends:
        here, there = end(row), end(base)
        if here is None:
            found += [Measure(f"{unit}_to_{name}", None, lacking) for unit in ("updates", "epochs")]
        else:
            found.append(Measure(f"updates_to_{name}", here.step, step=here.step))
            found.append(Measure(f"epochs_to_{name}", here.epochs, "" if here.epochs is not None else "no whole epoch", here.step))
        if not own:
            found += _saved(name, here, there, lacking, row.speed)
    found.append(Measure("words_per_second", row.words_per_second, "" if row.words_per_second else "not in its record"))
    if not own:
        found.append(Measure("speed_ratio", row.speed, "" if row.speed else "no speed of both"))
        for data in ("train", "valid"):
            share = below(row.seen.points, base.seen.points, data)
            found.append(Measure(f"{data}_below_baseline_pct", share, "" if share is not None else "nothing in common"))
    return found


def _saved(name: str, here: Point | None, there: Point | None, lacking: str, speed: float | None) -> list[Measure]:
    """Percent of the baseline's epochs and of its time; negative where the row needs more."""
    epochs = time = None
    why = lacking if here is None else f"the baseline: {lacking}" if there is None else "no whole epoch"
    if here is not None and there is not None and here.epochs is not None and there.epochs:
        ratio, why = here.epochs / there.epochs, ""
        epochs = 100.0 * (1.0 - ratio)
        time = None if not speed else 100.0 * (1.0 - ratio / speed)
    slow = "no speed of both" if epochs is not None and time is None else why
    return [Measure(f"epochs_saved_to_{name}_pct", epochs, why), Measure(f"time_saved_to_{name}_pct", time, slow)]


def below(row: Sequence[Point], base: Sequence[Point], data: str) -> float | None:
    """Percent of the row's validations within the baseline's curve (a line through its points, by epochs, else by updates) at which its
    loss is lower. None where they have nothing in common."""
    ours, theirs = (_line(points, data, "epochs") for points in (row, base))
    if not ours or not theirs:
        ours, theirs = (_line(points, data, "step") for points in (row, base))
    compared = [(y, at) for x, y in ours if (at := _at(theirs, x)) is not None]
    return 100.0 * sum(y < at for y, at in compared) / len(compared) if compared else None


def _line(points: Sequence[Point], data: str, axis: str) -> list[tuple[float, float]]:
    pairs = [(getattr(p, axis), getattr(p, data)) for p in points]
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def _at(line: Sequence[tuple[float, float]], x: float) -> float | None:
    """None outside of the line."""
    for (x0, y0), (x1, y1) in pairwise(line):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return line[0][1] if len(line) == 1 and line[0][0] == x else None
