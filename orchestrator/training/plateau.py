"""A rate that falls where the validation loss rises (Shen et al. 2018, section 4.3; after Gehring et al. 2017).

The rate is not a function of the step alone. What it depends on, the losses of the validations that counted, is folded into three fields of
`Progress`, which every checkpoint holds: a training that is killed between a validation and a checkpoint makes the same validation again.

Assumed: a rise is against the validation before, as the paper's words are ("every time the validation loss increases"); fairseq's
ReduceLROnPlateau compares with the best so far. An equal loss is no rise.
"""

from __future__ import annotations

from orchestrator.specs.optim import Schedule
from orchestrator.training.state import Progress


def observe(schedule: Schedule, progress: Progress, nll: float) -> None:
    """Take in a validation that counts: cuts the rate and writes it down (`Progress.rate_cuts`) where the schedule says so.

    Every worker sees the same nll, so all cut alike.
    """
    if schedule.kind != "plateau":
        return
    p = progress
    rise = p.before_nll is not None and nll > p.before_nll
    p.before_nll = nll
    if rise or (schedule.cut == "after_first_rise" and p.cuts > 0):
        p.cuts += 1
        p.rate_cuts.append({"step": p.step, "epoch": p.epoch, "lr": schedule.rate_after(p.cuts)})


def begin(progress: Progress) -> None:
    """A new phase: the rate is whole again, and nothing was validated before. `rate_cuts` stays, it is what happened."""
    progress.cuts, progress.before_nll = 0, None
