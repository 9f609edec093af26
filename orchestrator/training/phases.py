"""The phases of a training (the optimiser may restart) and its end, as functions of the spec and the progress."""

from orchestrator.specs.schema import BatchSpec, Every, RunSpec, Schedule
from orchestrator.training.batches import UpdateLoader, total_steps
from orchestrator.training.state import Progress


def settings(spec: RunSpec, progress: Progress) -> tuple[BatchSpec, Schedule]:
    """Returns batch and schedule of the current phase."""
    restart = spec.optim.restart
    if progress.phase == 0 or restart is None:
        return spec.batch, spec.optim.schedule
    return restart.batch or spec.batch, restart.schedule


def length(spec: RunSpec, progress: Progress, loader: UpdateLoader) -> int:
    """Returns the number of updates of the phase that begins: exact if steps end it, else an estimate."""
    restart, p = spec.optim.restart, progress
    left = total_steps(loader, spec.train, p) - p.step
    if restart is None or p.phase > 0:
        return left
    first = loader.updates_of(0, restart.after_epochs) if restart.after_epochs is not None else restart.after_steps
    return min(left, first or left)


def restart_due(spec: RunSpec, progress: Progress) -> bool:
    restart, p = spec.optim.restart, progress
    if restart is None or p.phase > 0:
        return False
    if restart.after_steps is not None:
        return p.step >= restart.after_steps
    return restart.after_epochs is not None and p.epoch >= restart.after_epochs


def restart(progress: Progress) -> None:
    """Starts the next phase with a new clock, the full rate and no earlier validation, at the start of an epoch."""
    p = progress
    p.phase, p.phase_step, p.phase_length = p.phase + 1, 0, 0
    p.epoch, p.index = (p.epoch + 1, 0) if p.index else (p.epoch, 0)
    p.cuts, p.before_nll = 0, None


def observe(schedule: Schedule, progress: Progress, nll: float) -> None:
    """Cuts the rate of a plateau after a validation whose nll is higher than the previous one (Shen et al. 2018, section 4.3: "every time
    the validation loss increases"). fairseq's ReduceLROnPlateau compares with the best so far."""
    if schedule.kind != "plateau":
        return
    p = progress
    rise = p.before_nll is not None and nll > p.before_nll
    p.before_nll = nll
    if rise or (schedule.cut == "after_first_rise" and p.cuts > 0):
        p.cuts += 1
        p.rate_cuts.append({"step": p.step, "epoch": p.epoch, "lr": schedule.rate_after(p.cuts)})


def due(every: Every, progress: Progress) -> bool:
    """Returns whether an event with the interval `every` (updates, or each epoch) is due after this update."""
    return progress.index == 0 if every == "epoch" else progress.step % every == 0


def ended_by(spec: RunSpec, progress: Progress) -> str | None:
    """Returns the first limit that ends the training: max_steps, max_epochs, patience or min_lr; None: it continues.
    A plateau's min_lr ends the training even before a restart. A restart leaves its epoch, which may have been the last one.
    """
    p, train = progress, spec.train
    if train.max_steps is not None and p.step >= train.max_steps:
        return "max_steps"
    if train.max_epochs is not None and p.epoch + (p.index > 0 and restart_due(spec, p)) >= train.max_epochs:
        return "max_epochs"
    if train.patience is not None and p.worse >= train.patience:
        return "patience"
    schedule = settings(spec, p)[1]
    return "min_lr" if schedule.kind == "plateau" and p.cuts >= schedule.cuts_to_end() else None
