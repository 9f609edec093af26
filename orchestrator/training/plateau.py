"""A learning rate that is cut when the validation loss rises (Shen et al. 2018, section 4.3; after Gehring et al. 2017).

The rate depends on the losses of validations. Its state is three fields of `Progress`, which every checkpoint holds, so that a training
killed between a validation and a checkpoint repeats that validation.

Assumed: a rise is relative to the previous validation, as the paper says ("every time the validation loss increases"); fairseq's
ReduceLROnPlateau compares with the best so far. An equal loss is no rise.
"""

from __future__ import annotations

from orchestrator.specs.optim import Schedule
from orchestrator.training.state import Progress


def observe(schedule: Schedule, progress: Progress, nll: float) -> None:
    """Processes a validation: cuts the rate if the schedule says so, and records that in `Progress.rate_cuts`.

    Every worker sees the same nll, so that all cut alike.
    """
    if schedule.kind != "plateau":
        return
    p = progress
    rise = p.before_nll is not None and nll > p.before_nll
    p.before_nll = nll
    if rise or (schedule.cut == "after_first_rise" and p.cuts > 0):
        p.cuts += 1
        p.rate_cuts.append({"step": p.step, "epoch": p.epoch, "lr": schedule.rate_after(p.cuts)})


def reset(progress: Progress) -> None:
    """Starts a new phase with the full rate and no earlier validation. `rate_cuts` stays as a record."""
    progress.cuts, progress.before_nll = 0, None
