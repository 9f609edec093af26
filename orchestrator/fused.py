"""Several runs of equal shapes as one job: the gradients of all in one pass, everything else each run's own.

A run keeps its own data order, dropout streams, rate, Adam, validations, checkpoints and files, and may stand at another step than its
companions: its files are those of a solo run, and either can go on from the other's. Its numbers differ from the solo run's by rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from models.fused import Fused
from models.initialise import stream_seed
from orchestrator.objective import Share
from orchestrator.pipeline import row_turns, run_row
from orchestrator.runtime import Reporter, Runtime
from orchestrator.task import Task
from orchestrator.train import Training
from orchestrator.turns import Log, Turn, Turns

T = TypeVar("T")


def run_fused(runs: Mapping[str, Turns[T]]) -> tuple[dict[str, T], dict[str, Exception]]:
    """Drive every run to its end: (results, errors) by name. One that ends, fails or diverges leaves; the others go on.

    The runs have one model configuration, vocabulary sizes, precision and device, and one worker each. KeyboardInterrupt reaches the
    caller when every run has seen it.
    """
    results: dict[str, T] = {}
    errors: dict[str, Exception] = {}
    interrupts: list[KeyboardInterrupt] = []
    job: Job | None = None
    logs: dict[str, Log | None] = dict.fromkeys(runs)
    while logs:
        turns: dict[str, Turn] = {}
        for name, log in logs.items():
            try:
                turns[name] = next(runs[name]) if log is None else runs[name].send(log)
            except StopIteration as end:
                results[name] = end.value
            except KeyboardInterrupt as interrupt:
                interrupts.append(interrupt)
            except Exception as error:
                errors[name] = error
        if interrupts:
            for name in turns:
                runs[name].close()
            raise interrupts[0]
        trainings = [turn.training for turn in turns.values()]
        if job is not None and job.trainings != trainings:
            job.fused.release()
            job = None
        if len(turns) == 1:
            logs = {name: turn.training.gradients(turn.update) for name, turn in turns.items()}
        elif turns:
            job = job or Job(trainings)
            logs = dict(zip(turns, job.gradients(list(turns.values())), strict=True))
        else:
            logs = {}
    return results, errors


def run_job(
    tasks: Sequence[Task],
    runtime: Runtime,
    reporters: Callable[[Task], Sequence[Reporter]] = lambda task: (),
    decide: Callable[[Task], Callable[[dict[str, Any]], bool]] = lambda task: lambda metrics: True,
) -> dict[str, Exception]:
    """Bring the tasks to their results, their trainings fused; returns the errors by task name. See `pipeline.run_row`.

    Tasks that share a training with an earlier one come after it.
    """
    first: dict[str, Task] = {}
    for task in tasks:
        first.setdefault(task.train_key, task)
    _, errors = run_fused({task.name: row_turns(task, runtime, reporters(task), decide(task)) for task in first.values()})
    for task in tasks:
        owner = first[task.train_key]
        if owner is task:
            continue
        if owner.name in errors:
            errors[task.name] = errors[owner.name]
            continue
        try:
            run_row(task, runtime, reporters(task), decide(task))
        except Exception as error:
            errors[task.name] = error
    return errors


class Job:
    """Trainings whose parameters are stacked at the moment."""

    def __init__(self, trainings: Sequence[Training]) -> None:
        self.trainings = list(trainings)
        self.fused = Fused([training.model for training in trainings])

    def gradients(self, turns: Sequence[Turn]) -> list[Log]:
        """Of one update of each run, left on its model; the seconds are shared out evenly."""
        started = time.perf_counter()
        sums: list[dict[str, Tensor]] = [{} for _ in turns]
        for i in range(max(len(turn.update.micro) for turn in turns)):
            for run, log in enumerate(self._micro(turns, i)):
                for name, value in log.items():
                    sums[run][name] = sums[run][name] + value if name in sums[run] else value
        self.fused.gather_gradients()
        for turn in turns:
            turn.training.progress.fused_steps += 1
        seconds = (time.perf_counter() - started) / len(turns)
        return [Log(each, seconds) for each in sums]

    def _micro(self, turns: Sequence[Turn], i: int) -> list[dict[str, Tensor]]:
        """Micro-batch i of every update that has one."""
        first = turns[0].training
        device = first.runtime.device
        none = torch.zeros(0, 1, dtype=torch.int64)
        batches = [turn.update.micro[i] if i < len(turn.update.micro) else None for turn in turns]
        src, tgt_in, tgt_out = (
            [(none if batch is None else getattr(batch, name)).to(device, non_blocking=True) for batch in batches]
            for name in ("src", "tgt_in", "tgt_out")
        )
        generators = [
            torch.Generator(device).manual_seed(stream_seed(t.training.spec.seed, "dropout", t.training.progress.step + 1, i, 0))
            for t in turns
        ]
        losses: list[Tensor] = []
        logs: list[dict[str, Tensor]] = []
        with torch.autocast(device.type, torch.bfloat16, enabled=first.spec.train.precision == "bf16"):
            outputs = self.fused(src, tgt_in, generators)
            for turn, batch, output, gold in zip(turns, batches, outputs, tgt_out, strict=True):
                if batch is None:
                    logs.append({})
                    continue
                share = Share(turn.update.src_tokens, turn.update.tgt_tokens, 1.0)
                loss, log = turn.training.objective.of(output, gold, share)  # type: ignore[operator]
                losses.append(loss)
                logs.append(log)
        torch.stack(losses).sum().backward()
        return logs
