"""The training loop. One worker and several workers see the same updates. It does not depend on Ray, MLflow, papers or tables."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from models.initialise import stream_seed
from models.transformer import Transformer, build, count_parameters
from orchestrator import cpu, interrupt
from orchestrator.data.prepare import Prepared
from orchestrator.decoding.validation_bleu import NAME, RungMetrics
from orchestrator.errors import StopTraining
from orchestrator.files.json_lines import Journal
from orchestrator.ledger import component_sources
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.weights import copy_into
from orchestrator.specs.schema import RunSpec, Schedule
from orchestrator.training import optim, phases
from orchestrator.training.batches import Update, UpdateLoader, prefetch, total_steps
from orchestrator.training.graphs import Graphs, both_passes, form_on
from orchestrator.training.initial_weights import profile, warm_start
from orchestrator.training.metrics import GradientNorms, Meter
from orchestrator.training.objective import Normalizer, Objective, Validator
from orchestrator.training.runtime import Reporter, Runtime
from orchestrator.training.state import Diverged, Progress, TrainResult, check_finite

LOG_EVERY = 50  # steps between two training reports
STOP_POLL_EVERY = 10  # steps between two agreements of several CPU workers on whether to stop


class Trainer:
    """One training, from the last good checkpoint in `store`, or from scratch, to the end of `spec.train`.

    reporters: Receive the metrics at every report of the main worker.
    rungs: Steps at which a validation is reported after its checkpoint is durable. Rungs never change the weights.
    init_weights: Weights of a trained parent; tensors with matching name and shape are copied.
    rung_metrics: Additional metrics at rungs and at the end, of the main worker.
    origin: Component sources of the training (`ledger.component_sources`), for its record.
    """

    def __init__(
        self,
        spec: RunSpec,
        runtime: Runtime,
        reporters: Sequence[Reporter],
        prepared: Prepared,
        store: Store,
        *,
        rungs: Iterable[int] = (),
        init_weights: Mapping[str, Tensor] | None = None,
        rung_metrics: RungMetrics | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec, self.runtime, self.reporters, self.store = spec, runtime, reporters, store
        self.rungs, self.rung_metrics = frozenset(rungs), rung_metrics
        cpu.use(spec.train.threads)

        # build the model, then copy a parent's weights
        self.model: Transformer = build(spec.model.model_dump(), prepared.src_size, prepared.tgt_size, spec.seed)
        self.warm_start = None if init_weights is None else warm_start(self.model, init_weights)
        self.model.to(runtime.device)
        if self.warm_start is None:
            profile(self.model, prepared, spec, runtime.device)
        self.model.recompute(spec.train.recompute == "layers")
        if spec.train.compile:
            self.model.compile_layers()
        self.params = count_parameters(self.model)

        # the optimizer, and the loss as one module that DDP can wrap
        self.optimizer = optim.build_optimizer(self.model, spec.optim)
        self.average = None if spec.optim.ema is None else optim.MovingAverage(self.model, spec.optim.ema)
        stacks = self.model.encoder, self.model.decoder
        some_unused = any(list(stack.connection.parameters()) for stack in stacks if not stack.reads_last_connection)
        self.objective = runtime.distributed(Objective(self.model, spec.optim.label_smoothing), some_unused=some_unused)

        self.form = form_on(runtime, self.model, spec.train)
        passes = both_passes(self.objective, runtime.device, bf16=spec.train.precision == "bf16")
        self.graphs = Graphs(passes, self.model.parameters(), runtime.device)

        self.train_pairs = prepared.pairs("train")
        self.validator = Validator(prepared.pairs("valid"), runtime)
        self.meter = Meter(runtime)
        self.gradient_norms = GradientNorms(self.model, spec.train.log_gradient_norms if runtime.is_main else 0)
        self.progress = Progress(origin=dict(origin or {}))
        self.journal: Journal | None = None  # open during `train`

    def train(self) -> TrainResult:
        """Trains to the end. KeyboardInterrupt: the process was asked to stop; a checkpoint is written before."""
        status, reason = "done", ""
        self.journal = Journal(self.store.run_dir / "journal.jsonl") if self.runtime.is_main else None
        try:
            self.load_checkpoint()
            self.progress.count_workers(self.runtime.world_size)
            if self.warm_start is not None and self.progress.step == 0:
                self.report({"warm_start": self.warm_start})
            while not self.finished:
                self.train_phase()
            if self.runtime.is_main:
                self.save_weights("last", self.weights())
                if self.average is not None:
                    self.save_weights("ema", self.average.average)
        except Diverged as error:
            self.report(self.gradient_norms.flush())
            status, reason = "diverged", str(error)
        except StopTraining as stop:
            status, reason = "stopped", str(stop)
        finally:
            if self.journal is not None:
                self.journal.close()
        ended_by = phases.ended_by(self.spec, self.progress) if status == "done" else None
        return TrainResult(status, reason, self.progress, self.params, self.weights(), self.warm_start, ended_by)

    def train_phase(self) -> None:
        """Trains until the training is finished or the optimizer must restart."""
        if phases.restart_due(self.spec, self.progress):  # here, because a checkpoint is written before the restart that follows
            phases.restart(self.progress)
            self.optimizer = optim.build_optimizer(self.model, self.spec.optim)
        self.graphs.forget()
        batch, schedule = phases.settings(self.spec, self.progress)
        loader = UpdateLoader(self.train_pairs, batch, self.spec.seed, self.runtime.rank, self.runtime.world_size)
        self.report({"total_steps": total_steps(loader, self.spec.train, self.progress)})
        if schedule.needs_length and self.progress.phase_length == 0:
            self.progress.phase_length = phases.length(self.spec, self.progress, loader)
        self.model.train()
        updates = loader.updates(self.progress.epoch, self.progress.index)
        for update in updates if self.form is None else prefetch(updates, self.form):
            self.train_step(update, schedule)
            self.after_step()
            if self.finished:
                return
            if self.stop_requested():
                self.report(self.save_checkpoint({}, force=True))
                raise KeyboardInterrupt
            if phases.restart_due(self.spec, self.progress):
                return

    def train_step(self, update: Update, schedule: Schedule) -> None:
        """Runs one update of the weights."""
        started = time.perf_counter()
        self.model.zero_grad(set_to_none=True)
        sums = self.forward_backward(update)
        self.optimizer_step(update, schedule, sums)
        self.meter.add(self.progress, update, sums, time.perf_counter() - started)

    def forward_backward(self, update: Update) -> dict[str, Tensor]:
        """Accumulates the gradients of all micro-batches. Returns sums for the log."""
        step = self.progress.step + 1
        sums: dict[str, Tensor] = {}
        for i, batch in enumerate(update.micro_batches):
            torch.manual_seed(stream_seed(self.spec.seed, "dropout", step, i, self.runtime.rank))
            normalizer = Normalizer(update.src_tokens, update.tgt_tokens, 0.0 if update.idle[i] else float(self.runtime.world_size))
            with self.runtime.no_sync(self.objective, i < len(update.micro_batches) - 1):
                log = self.graphs(batch, normalizer, alone=len(update.micro_batches) == 1)
            for name, value in log.items():
                value = value * 0.0 if update.idle[i] else value
                sums[name] = sums[name] + value if name in sums else value
        return sums

    def optimizer_step(self, update: Update, schedule: Schedule, sums: dict[str, Tensor]) -> None:
        p, spec = self.progress, self.spec
        step = p.step + 1
        optim.set_lr(self.optimizer, optim.learning_rate(schedule, p.phase_step + 1, spec.model.d_model, p.cuts, p.phase_length))
        self.gradient_norms.record(step)
        norm = optim.clip_gradients(self.model, spec.optim.clip_norm)
        # on a GPU only before a report, because other steps must not wait for the device
        if self.runtime.device.type == "cpu" or step % LOG_EVERY == 0:
            check_finite(self.runtime, step, sums["nll"], norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(step)
        p.step, p.phase_step, p.epoch, p.index = step, p.phase_step + 1, update.epoch, update.index

    def after_step(self) -> None:
        """Validates, saves and reports if due."""
        p, train = self.progress, self.spec.train
        if self.journal is not None:
            self.journal.step(p.step)
        rung = p.step in self.rungs
        due = self.finished or phases.due(train.validate_every, p)
        metrics: dict[str, Any] = {}
        if due or rung:
            metrics = self.training_metrics() | self.validate(counts=due)
            metrics |= {"rung": p.step, "params": self.params} if rung else {}
            metrics |= self.rung_metrics(self.model) if self.rung_metrics and (rung or self.finished) else {}
        elif p.step % LOG_EVERY == 0:
            metrics = self.training_metrics()
        if ended_by := phases.ended_by(self.spec, p):  # the validation may have exhausted the patience or the rate
            metrics["ended_by"] = ended_by
        self.report(self.save_checkpoint(metrics, force=bool(ended_by) or rung))

    def validate(self, *, counts: bool) -> dict[str, float]:
        """Returns the validation metrics. counts: the result affects best weights, patience and the plateau's rate; False: only a rung."""
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
                    self.save_weights("best", self.weights())
            else:
                p.worse += 1
            phases.observe(phases.settings(self.spec, p)[1], p, nll)
        return metrics

    @property
    def finished(self) -> bool:
        return phases.ended_by(self.spec, self.progress) is not None

    def stop_requested(self) -> bool:
        """Returns whether to stop. Several workers agree on the step; on GPUs only at a report, where they synchronise anyway."""
        every = 1 if self.runtime.world_size == 1 else STOP_POLL_EVERY if self.runtime.device.type == "cpu" else LOG_EVERY
        return self.progress.step % every == 0 and self.runtime.any(interrupt.requested())

    def weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.model.named_parameters()}

    def save_weights(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        self.store.save_weights(name, tensors, self.progress.step)

    def save_checkpoint(self, metrics: dict[str, Any], *, force: bool) -> dict[str, Any]:
        """Saves a snapshot and a checkpoint if due (`force`: the checkpoint now). Returns the report, which the checkpoint also holds."""
        p, train = self.progress, self.spec.train
        due = force or phases.due(train.checkpoint_every, p)
        meter = self.meter.state() if due else {}  # collective: sums of all workers
        if not self.runtime.is_main:
            return metrics
        if train.snapshots and (phases.due(train.snapshot_every or train.checkpoint_every, p) or self.finished):
            self.store.save_snapshot(p.step, self.weights(), train.snapshots)
        if due:
            metrics |= self.gradient_norms.flush()  # norms outside of checkpoints would be lost with the process
            # generator states are not saved: dropout streams are a function of (seed, step, micro-batch, rank)
            state = {"progress": asdict(p), "report": metrics, "meter": meter}
            tensors = {"model": self.weights(), "optimizer": optim.optimizer_tensors(self.model, self.optimizer)}
            if self.average is not None:
                tensors["ema"] = self.average.average
            self.store.save(p.step, tensors, state)
        return metrics

    def load_checkpoint(self) -> None:
        """Resumes from the last good checkpoint, if there is one."""
        saved = self.store.latest(
            lambda path, reason: self.report({"warning": f"{path.name}: {reason}; the checkpoint before it is used"}),
            repair=self.runtime.is_main,
        )
        step = 0 if saved is None else Progress(**saved.state["progress"]).step
        if int(self.runtime.sum(torch.tensor(step, device=self.runtime.device))) != step * self.runtime.world_size:
            raise RuntimeError(f"workers found checkpoints of different steps, here {step}: is the folder shared? The same command resumes")
        if saved is None:
            return
        now, self.progress = self.progress.origin, Progress(**saved.state["progress"])
        if files := ", ".join(component_sources.mark_edited(self.progress.origin, now)):
            self.report({"warning": f"{files} changed since the checkpoint; without the run's folder it begins anew"})
        self.meter.load(saved.state["meter"])
        copy_into(self.model, saved.tensors["model"])
        optim.load_optimizer(self.model, self.optimizer, saved.tensors["optimizer"])
        if self.average is not None:
            self.average.load(saved.tensors["ema"])
        report = saved.state["report"]  # repeated, in case the process died between checkpoint and report
        if self.rung_metrics and "rung" in report and NAME not in report:
            report |= self.rung_metrics(self.model)
        self.report(report)

    def training_metrics(self) -> dict[str, Any]:
        p = self.progress
        return self.meter.read() | {
            **self.gradient_norms.flush(),
            "train/lr": self.optimizer.param_groups[0]["lr"],
            "train/epoch": p.epoch,
            "train/padding_share": round(p.padding_share, 4),
            **({"train/rate_cuts": len(p.rate_cuts)} if phases.settings(self.spec, p)[1].kind == "plateau" else {}),
        }

    def report(self, metrics: dict[str, Any]) -> None:
        if metrics:
            for reporter in self.reporters:
                reporter({"step": self.progress.step} | metrics)
