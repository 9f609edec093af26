"""A probe: times a few updates of the real training loop at a row's shapes, validation batches, a checkpoint and decoded batches.

On a CPU with one thread, seconds are CPU time, so that other load on the machine does not count.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.inference import prepared as packed
from models.transformer import Transformer
from orchestrator import cpu
from orchestrator.cost.flops import work
from orchestrator.cost.lengths import expected_steps, tokens_of
from orchestrator.cost.work import Tokens
from orchestrator.data.batching import PAD
from orchestrator.data.prepare import prepare
from orchestrator.data.store import Prepared
from orchestrator.decoding.beam import EOS, beam_search
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import StopTraining
from orchestrator.ledger.run_files import Store
from orchestrator.specs.schema import RunSpec, Schedule
from orchestrator.training.batches import Update
from orchestrator.training.objective import token_nll
from orchestrator.training.runtime import Runtime, best_device
from orchestrator.training.trainer import Trainer

WARM_UP, MIN_UPDATES, MAX_UPDATES, SECONDS = 3, 5, 40, 4.0
BATCHES = 3
"""Batches of the validation set, and of the test set, that are timed."""
NEVER = 2**31 - 1


def measure(spec: RunSpec, data_dir: Path | None, cache_dir: Path, folder: Path) -> dict[str, float]:
    """Returns `probes.MEASURES`, checkpoint_seconds, start_seconds and memory (peak bytes of the process or the device).

    folder: where a checkpoint is written and removed again.
    """
    prepared = prepare(spec.data, data_dir, cache_dir)
    endless = {"max_steps": NEVER, "max_epochs": None, "patience": None, "validate_every": NEVER, "checkpoint_every": NEVER}
    train = spec.train.model_copy(update=endless | {"snapshots": 0, "log_gradient_norms": 0})
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".probe-") as place:
        started = time.perf_counter()
        bare = spec.model_copy(update={"train": train, "init_from": None})
        training = _Timed(bare, Runtime(device=best_device()), [], prepared, Store(Path(place), "0" * 64))
        found = {"start_seconds": time.perf_counter() - started}
        training.train()
        found |= training.measured()
        started = time.perf_counter()
        training.save_checkpoint({}, force=True)
        found["checkpoint_seconds"] = time.perf_counter() - started
    found |= _validation(training)
    found["memory"] = _memory()
    del training.optimizer
    return found | _decoding(training, prepared, spec)


class _Timed(Trainer):
    """A training that ends after some timed updates.

    The first updates are not timed, because they include data order, allocation and compilation. The seconds are those of the median rate,
    because new shapes make single updates slow.
    """

    def clock(self) -> float:
        """Seconds, after the device has finished."""
        if self.runtime.device.type == "cuda":
            torch.cuda.synchronize(self.runtime.device)
        return time.process_time() if self.runtime.device.type == "cpu" and self.spec.train.threads == 1 else time.perf_counter()

    def train(self) -> Any:
        self.done: list[tuple[float, float]] = []
        self.work = work(self.spec.model, *_sizes(self.model))
        return super().train()

    def train_step(self, update: Update, schedule: Schedule) -> None:
        started = self.clock()
        super().train_step(update, schedule)
        seconds = self.clock() - started
        self.done.append((sum(self.work.training(_tokens(batch.src, batch.tgt_out)) for batch in update.micro_batches), seconds))
        timed = self.done[WARM_UP:]
        if len(timed) >= MAX_UPDATES or (len(timed) >= MIN_UPDATES and sum(seconds for _, seconds in timed) >= SECONDS):
            raise StopTraining("stopped", "measured")

    def measured(self) -> dict[str, float]:
        flops = sum(flops for flops, _ in self.done[WARM_UP:])
        return {"train_flops": flops, "train_seconds": flops * statistics.median(s / f for f, s in self.done[WARM_UP:])}


def _validation(training: _Timed) -> dict[str, float]:
    flops, model, started = 0.0, training.model.eval(), training.clock()
    for _, batch in training.validator.batches[:BATCHES]:
        token_nll(model, *(t.to(training.runtime.device) for t in (batch.src, batch.tgt_in, batch.tgt_out)))
        flops += training.work.forward(_tokens(batch.src, batch.tgt_out))
    return {"valid_flops": flops, "valid_seconds": training.clock() - started}


@torch.inference_mode()
def _decoding(training: _Timed, prepared: Prepared, spec: RunSpec) -> dict[str, float]:
    """Times batches of the test set from long to short; the untrained model is forced to end where the references do."""
    model, search, pairs = training.model.eval(), spec.search, prepared.pairs(spec.score.test)
    if search.length_penalty.alpha == "tuned":
        search = search.model_copy(update={"length_penalty": search.length_penalty.model_copy(update={"alpha": 0.6, "candidates": None})})
    cpu.use(spec.train.threads)
    ends = _Ends(model)
    groups = batches(pairs.src_lengths.tolist())
    chosen = [groups[round(i * (len(groups) - 1) / (BATCHES - 1))] for i in range(min(BATCHES, len(groups)))]
    row_steps, seconds = 0, 0.0
    with packed(model, search.precision):
        for warm, indices in [(True, chosen[-1]), *((False, indices) for indices in chosen)]:
            ends.after = expected_steps(pairs, indices, spec)
            source = pad([pairs[i][0] for i in indices]).to(training.runtime.device)
            started = training.clock()
            beam_search(model, source, search)
            if not warm:
                seconds += training.clock() - started
                row_steps += len(indices) * search.beam_size * ends.steps
    return {"row_steps": row_steps, "decode_seconds": seconds, "decode_weights": training.work.tgt}


class _Ends:
    """Forces a model to end every hypothesis after exactly `after` steps."""

    def __init__(self, model: Transformer) -> None:
        self.after = self.steps = 0
        encode, logits = model.encode, model.logits

        def encoded(*args: Any, **kwargs: Any) -> Any:
            self.steps = 0
            return encode(*args, **kwargs)

        def ended(*args: Any, **kwargs: Any) -> Tensor:
            self.steps += 1
            found = logits(*args, **kwargs).clone()
            found[..., EOS] = 1e4 if self.steps >= self.after else -1e4
            return found

        model.encode, model.logits = encoded, ended  # type: ignore[method-assign]


def _sizes(model: Transformer) -> tuple[int, int]:
    return model.src_embedding.words.num_embeddings, model.output.out_features


def _tokens(src: Tensor, tgt: Tensor) -> Tokens:
    return tokens_of((src != PAD).sum(1).numpy(), (tgt != PAD).sum(1).numpy())


def _memory() -> int:
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
