"""The training loop. It knows nothing of Ray, MLflow, papers or tables; with one worker or several it sees the same updates."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.initialise import stream_seed
from models.transformer import Transformer, build, count_parameters
from orchestrator import cpu, interrupt
from orchestrator.data.prepare import Prepared
from orchestrator.decoding.validation_bleu import NAME, RungMetrics
from orchestrator.errors import StopTraining
from orchestrator.faults import fault, injected_nan
from orchestrator.files.json_lines import Journal
from orchestrator.ledger import sources
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.weights import copy_into
from orchestrator.specs.schema import RunSpec, Schedule
from orchestrator.training import phases, plateau
from orchestrator.training.batches import Feed, Update, total_steps
from orchestrator.training.gradient_norms import GradientNorms
from orchestrator.training.metrics import Meter
from orchestrator.training.objective import Objective, Share
from orchestrator.training.optim import clip, learning_rate, load_optimizer, optimizer, optimizer_tensors, set_rate
from orchestrator.training.prefetch import ahead
from orchestrator.training.result import Diverged, TrainResult, check_finite
from orchestrator.training.runtime import Reporter, Runtime
from orchestrator.training.state import Progress
from orchestrator.training.validation import Validator
from orchestrator.training.warm_start import warm_start

LOG_EVERY = 50  # steps between two training reports
ASK_EVERY = 10  # steps after which several workers ask each other whether to end


def train(
    spec: RunSpec,
    runtime: Runtime,
    reporters: Iterable[Reporter],
    *,
    prepared: Prepared,
    run_dir: Path,
    train_key: str,
    lock: RunLock | None = None,
    rungs: Iterable[int] = (),
    init_weights: Mapping[str, Tensor] | None = None,
    at_rung: RungMetrics | None = None,
) -> TrainResult:
    """Train from the last good checkpoint under `run_dir`, or from the start, to the end of `spec.train`.

    rungs: steps at which a validation is reported, after a checkpoint is durable; they never change the weights. at_rung: more to measure.
    init_weights: of a trained parent; those that match by name and shape are copied.
    """
    store = Store(run_dir, train_key, lock)
    return Training(spec, runtime, list(reporters), prepared, store, frozenset(rungs), init_weights, at_rung).run()


class Training:
    """One training under way."""

    def __init__(
        self,
        spec: RunSpec,
        runtime: Runtime,
        reporters: list[Reporter],
        prepared: Prepared,
        store: Store,
        rungs: frozenset[int],
        init_weights: Mapping[str, Tensor] | None,
        at_rung: RungMetrics | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec, self.runtime, self.reporters = spec, runtime, reporters
        self.store, self.rungs, self.at_rung = store, rungs, at_rung
        cpu.use(spec.train.threads)
        self.model: Transformer = build(spec.model.model_dump(), prepared.src_size, prepared.tgt_size, spec.seed)
        self.warm_start = None if init_weights is None else warm_start(self.model, init_weights)
        self.model.to(runtime.device)
        self.model.recompute(spec.train.recompute == "layers")
        self.params = count_parameters(self.model)
        self.optimizer = optimizer(self.model, spec.optim)
        self.progress = Progress(origin=dict(origin or {}))
        self.meter = Meter()
        self.norms = GradientNorms(self.model, spec.train.log_gradient_norms if runtime.is_main else 0)
        objective = Objective(self.model, spec.optim.label_smoothing)
        if spec.train.compile:
            objective.compile()
        self.objective = runtime.prepare_model(objective)
        self.train_pairs = prepared.pairs("train")
        self.validator = Validator(prepared.pairs("valid"), runtime)
        self.journal: Journal | None = None  # open while the training is under way
        self.executed = 0

    # ------------------------------------------------------------ the loop

    def run(self) -> TrainResult:
        status, reason = "done", ""
        self.journal = Journal(self.store.run_dir / "journal.jsonl") if self.runtime.is_main else None
        try:
            self._resume()
            if self.warm_start is not None and self.progress.step == 0:
                self._report({"warm_start": self.warm_start.to_json()})
            while not self._finished():
                self._phase()
            if self.runtime.is_main:
                self._save_weights("last")
        except Diverged as error:
            self._report(self.norms.read())
            status, reason = "diverged", str(error)
        except StopTraining as stop:
            status, reason = stop.status, stop.reason
        finally:
            if self.journal is not None:
                self.journal.close()
        ended_by = phases.ended_by(self.spec, self.progress) if status == "done" else None
        return TrainResult(status, reason, self.progress, self.params, self._weights(), self.executed, self.warm_start, ended_by)

    def _phase(self) -> None:
        """Until the training is finished or the optimiser restarts."""
        batch, schedule = phases.settings(self.spec, self.progress)
        feed = Feed(self.train_pairs, batch, self.spec.seed, self.runtime.rank, self.runtime.world_size)
        self._report({"total_steps": total_steps(feed, self.spec.train, self.progress)})
        self.model.train()
        updates = feed.updates(self.progress.epoch, self.progress.index)
        for update in self.runtime.prepare_loader(ahead(updates) if self.runtime.device.type == "cuda" else updates):
            fault("step", self.progress.step + 1)
            self.update(update, schedule)
            self._after_step()
            if self._finished():
                return
            if self._interrupted():
                self._report(self._save({}, always=True))
                raise KeyboardInterrupt
            if phases.restart_due(self.spec, self.progress):
                phases.restart(self.progress)
                self.optimizer = optimizer(self.model, self.spec.optim)
                return

    def update(self, update: Update, schedule: Schedule) -> None:
        """One update of the weights."""
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        sums = self._gradients(update)
        self._step(update, schedule, sums)
        self.meter.add(self.progress, update, sums, time.perf_counter() - started)

    def _gradients(self, update: Update) -> dict[str, Tensor]:
        """Adds the gradients of the update's loss to those on the model; returns sums for the log."""
        spec, step = self.spec, self.progress.step + 1
        sums: dict[str, Tensor] = {}
        for i, batch in enumerate(update.micro):
            torch.manual_seed(stream_seed(spec.seed, "dropout", step, i, self.runtime.rank))
            tensors = (t.to(self.runtime.device, non_blocking=True) for t in (batch.src, batch.tgt_in, batch.tgt_out))
            share = Share(update.src_tokens, update.tgt_tokens, 0.0 if update.idle[i] else float(self.runtime.world_size))
            with (
                self.runtime.no_sync(self.objective, i < len(update.micro) - 1),
                torch.autocast(self.runtime.device.type, torch.bfloat16, enabled=spec.train.precision == "bf16"),
            ):
                loss, log = self.objective(*tensors, share)
                loss.backward()
            for name, value in log.items():
                value = value * 0.0 if update.idle[i] else value
                sums[name] = sums[name] + value if name in sums else value
        return sums

    def _step(self, update: Update, schedule: Schedule, sums: dict[str, Tensor]) -> None:
        p, spec = self.progress, self.spec
        step = p.step + 1
        rate = learning_rate(schedule, p.phase_step + 1, spec.model.d_model, p.cuts)
        set_rate(self.optimizer, rate)
        self.norms.take(step)
        norm = clip(self.model, spec.optim.clip_norm)
        if injected_nan(step):
            sums["nll"] = sums["nll"] * math.nan
        # on a GPU the check waits for the next report, so that the step never waits for the device
        if self.runtime.device.type == "cpu" or step % LOG_EVERY == 0:
            check_finite(self.runtime, step, sums["nll"], norm)
        self.optimizer.step()
        p.step, p.phase_step, p.epoch, p.index = step, p.phase_step + 1, update.epoch, update.index

    def _after_step(self) -> None:
        p, train = self.progress, self.spec.train
        if self.journal is not None:
            self.journal.step(p.step)
        self.executed += 1
        rung = p.step in self.rungs
        due = self._finished() or phases.due(train.validate_every, p)
        metrics: dict[str, Any] = {}
        if due or rung:
            metrics = self._training_metrics() | self._validate(counts=due)
            metrics |= {"rung": p.step, "params": self.params} if rung else {}
            metrics |= self._at_rung() if rung or self._finished() else {}
        elif p.step % LOG_EVERY == 0:
            metrics = self._training_metrics()
        if ended_by := phases.ended_by(self.spec, p):  # patience or the rate may just have run out
            metrics["ended_by"] = ended_by
        self._report(self._save(metrics, always=bool(ended_by) or rung))

    def _validate(self, *, counts: bool) -> dict[str, float]:
        """`counts`: it decides on the best checkpoint, patience and a plateau's rate (a rung's extra validation does not)."""
        p = self.progress
        metrics = self.validator(self.model)
        nll = metrics["valid/nll"]
        if not math.isfinite(nll):
            raise Diverged(f"validation nll is not finite at step {p.step}")
        if counts:
            p.last_nll = nll
            if p.best_nll is None or nll < p.best_nll:
                p.best_nll, p.best_step, p.worse = nll, p.step, 0
                if self.runtime.is_main:
                    self._save_weights("best")
            else:
                p.worse += 1
            plateau.observe(phases.settings(self.spec, p)[1], p, nll)
        return metrics

    def _at_rung(self) -> dict[str, float]:
        return {} if self.at_rung is None or not self.runtime.is_main else self.at_rung(self.model)

    # ------------------------------------------------------------ the end

    def _finished(self) -> bool:
        return phases.ended_by(self.spec, self.progress) is not None

    def _interrupted(self) -> bool:
        """Is this training to end now? Several workers agree, so that all end after the same step; on a GPU where they wait anyway."""
        if self.runtime.world_size == 1:
            return interrupt.requested()
        if self.progress.step % (ASK_EVERY if self.runtime.device.type == "cpu" else LOG_EVERY):
            return False
        return bool(self.runtime.sum(torch.tensor(float(interrupt.requested()), device=self.runtime.device)) > 0)

    # ------------------------------------------------------------ state

    def _weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.model.named_parameters()}

    def _save_weights(self, name: str) -> None:
        self.store.save_weights(name, self._weights(), {"step": self.progress.step})

    def _save(self, metrics: dict[str, Any], *, always: bool) -> dict[str, Any]:
        """A snapshot and a full checkpoint where they are due (`always`: now). Returns the report that follows, which is in the latter."""
        p, train = self.progress, self.spec.train
        if not self.runtime.is_main:
            return metrics
        if train.snapshots and (phases.due(train.snapshot_every or train.checkpoint_every, p) or self._finished()):
            self.store.save_snapshot(p.step, self._weights(), train.snapshots)
        if always or phases.due(train.checkpoint_every, p):
            metrics |= self.norms.read()  # what is in no checkpoint's report is lost with the process
            # dropout streams are named by (seed, step, micro-batch, rank), so the step is all of the generator's state
            state = {"progress": p.to_json(), "report": metrics, "rng": {"dropout": p.step}}
            self.store.save(p.step, {"model": self._weights(), "optimizer": optimizer_tensors(self.model, self.optimizer)}, state)
        return metrics

    def _resume(self) -> None:
        saved = self.store.latest(self._warn, repair=self.runtime.is_main)
        self.runtime.barrier()
        if saved is None:
            return
        now, self.progress = self.progress.origin, Progress.of(saved.state["progress"])
        if (origin := sources.met(self.progress.origin, now)) != self.progress.origin:
            self.progress.origin = origin
            self._report({"warning": f"{', '.join(sources.mixed(origin))} changed since the checkpoint; --again begins anew"})
        copy_into(self.model, saved.tensors["model"])
        load_optimizer(self.model, self.optimizer, saved.tensors["optimizer"])
        report = saved.state["report"]  # told once more, in case the process died between checkpoint and report
        if "rung" in report and NAME not in report:
            report |= self._at_rung()
        self._report(report)

    # ------------------------------------------------------------ reports

    def _training_metrics(self) -> dict[str, Any]:
        p = self.progress
        return self.meter.read(self.runtime.world_size) | {
            **self.norms.read(),
            "train/lr": self.optimizer.param_groups[0]["lr"],
            "train/epoch": p.epoch,
            "train/padding_share": round(p.padding_share, 4),
            **({"train/rate_cuts": len(p.rate_cuts)} if phases.settings(self.spec, p)[1].kind == "plateau" else {}),
        }

    def _report(self, metrics: dict[str, Any]) -> None:
        if not metrics:
            return
        fault("pre_report", self.progress.step)
        for reporter in self.reporters:
            reporter.on_report({"step": self.progress.step} | metrics, self.store.run_dir)
        fault("post_report", self.progress.step)

    def _warn(self, path: Path, reason: str) -> None:
        self._report({"warning": f"{path.name}: {reason}; the checkpoint before it is used"})
