"""Where a training stands in its phases, and what ends it: functions of the spec and of the progress that every checkpoint holds."""

from __future__ import annotations

from orchestrator.specs.schema import BatchSpec, Every, RunSpec, Schedule
from orchestrator.training import plateau
from orchestrator.training.state import Progress


def settings(spec: RunSpec, progress: Progress) -> tuple[BatchSpec, Schedule]:
    """Of the phase under way."""
    restart = spec.optim.restart
    if progress.phase == 0 or restart is None:
        return spec.batch, spec.optim.schedule
    return restart.batch or spec.batch, restart.schedule


def restart_due(spec: RunSpec, progress: Progress) -> bool:
    restart, p = spec.optim.restart, progress
    if restart is None or p.phase > 0:
        return False
    if restart.after_steps is not None:
        return p.step >= restart.after_steps
    return restart.after_epochs is not None and p.epoch >= restart.after_epochs


def restart(progress: Progress) -> None:
    """A fresh clock; a broken-off epoch is left."""
    p = progress
    p.phase, p.phase_step = p.phase + 1, 0
    p.epoch, p.index = (p.epoch + 1, 0) if p.index else (p.epoch, 0)
    plateau.begin(p)


def due(every: Every, progress: Progress) -> bool:
    """After an update: is it one of every so many, or the last of its epoch?"""
    return progress.index == 0 if every == "epoch" else progress.step % every == 0


def ended_by(spec: RunSpec, progress: Progress) -> str | None:
    """max_steps, max_epochs, patience or min_lr, the first of them that ends the training; None: it goes on.

    A plateau's smallest rate ends the training even before a restart.
    """
    p, train = progress, spec.train
    if train.max_steps is not None and p.step >= train.max_steps:
        return "max_steps"
    if train.max_epochs is not None and p.epoch >= train.max_epochs:
        return "max_epochs"
    if train.patience is not None and p.worse >= train.patience:
        return "patience"
    return "min_lr" if settings(spec, p)[1].ends_after(p.cuts) else None
