"""A probe: times a few updates of the real training loop at a row's shapes, and a few decoded batches.

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
from orchestrator.cost.lengths import tokens_of
from orchestrator.data.batching import PAD
from orchestrator.data.prepare import prepare
from orchestrator.data.store import Prepared
from orchestrator.decoding.beam import EOS, beam_search
from orchestrator.decoding.length_penalty import with_alpha
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import StopTraining
from orchestrator.ledger.run_files import Store
from orchestrator.specs.schema import RunSpec, Schedule
from orchestrator.training.batches import Update
from orchestrator.training.runtime import Runtime, best_device
from orchestrator.training.trainer import Trainer

WARM_UP, MIN_UPDATES, MAX_UPDATES, SECONDS = 3, 5, 40, 4.0
BATCHES = 3
"""Batches of the test set that are timed."""
NEVER = 2**31 - 1


def measure(spec: RunSpec, data_dir: Path | None, cache_dir: Path) -> dict[str, float]:
    """Measures one architecture in this process.

    Returns train: seconds per FLOP. decode: seconds per hypothesis and step of the search. update: FLOP of a mean update.
    weights: how many are applied to a target position. memory: peak bytes of the process or the device.
    """
    prepared = prepare(spec.data, data_dir, cache_dir)
    endless = {"max_steps": NEVER, "max_epochs": None, "patience": None, "validate_every": NEVER, "checkpoint_every": NEVER}
    train = spec.train.model_copy(update=endless | {"snapshots": 0, "log_gradient_norms": 0})
    with tempfile.TemporaryDirectory(dir=cache_dir, prefix=".probe-") as place:
        bare = spec.model_copy(update={"train": train, "init_from": None})
        training = _Timed(bare, Runtime(device=best_device()), [], prepared, Store(Path(place), "0" * 64))
        training.train()
    timed = training.done[WARM_UP:]
    found = {"train": statistics.median(seconds / flops for flops, seconds in timed)}
    found |= {"update": statistics.fmean(flops for flops, _ in timed), "weights": training.work.tgt, "memory": _memory()}
    return found | {"decode": _decoding(training, prepared, spec)}


class _Timed(Trainer):
    """A training that ends after some timed updates; the first ones include data order, allocation and compilation and are not timed."""

    def clock(self) -> float:
        """Seconds, after the device has finished."""
        if self.runtime.device.type == "cuda":
            torch.cuda.synchronize(self.runtime.device)
        return time.process_time() if self.runtime.device.type == "cpu" and self.spec.train.threads == 1 else time.perf_counter()

    def train(self) -> Any:
        self.done: list[tuple[float, float]] = []
        self.work = work(self.spec.model, self.model.src_embedding.words.num_embeddings, self.model.output.out_features)
        return super().train()

    def train_step(self, update: Update, schedule: Schedule) -> None:
        started = self.clock()
        super().train_step(update, schedule)
        seconds = self.clock() - started
        lengths = [tokens_of(*((side != PAD).sum(1).numpy() for side in (batch.src, batch.tgt_out))) for batch in update.micro_batches]
        self.done.append((sum(self.work.training(tokens) for tokens in lengths), seconds))
        timed = self.done[WARM_UP:]
        if len(timed) >= MAX_UPDATES or (len(timed) >= MIN_UPDATES and sum(seconds for _, seconds in timed) >= SECONDS):
            raise StopTraining("stopped", "measured")


@torch.inference_mode()
def _decoding(training: _Timed, prepared: Prepared, spec: RunSpec) -> float:
    """Seconds per hypothesis and step, over batches of the test set from long to short.

    The untrained model is forced to end after as many steps as the references have on average.
    """
    model, search, pairs = training.model.eval(), spec.search, prepared.pairs(spec.score.test)
    if search.length_penalty.alpha == "tuned":
        search = with_alpha(search, 0.6)
    cpu.use(spec.train.threads)
    ends = _Ends(model)
    groups = batches(pairs.src_lengths.tolist())
    chosen = [groups[round(i * (len(groups) - 1) / (BATCHES - 1))] for i in range(min(BATCHES, len(groups)))]
    steps, seconds = 0, 0.0
    with packed(model, search.precision):
        for warm, indices in [(True, chosen[-1]), *((False, indices) for indices in chosen)]:
            ends.after = 1 + round(float(pairs.tgt_lengths[indices].mean()))
            source = pad([pairs[i][0] for i in indices]).to(training.runtime.device)
            started = training.clock()
            beam_search(model, source, search)
            if not warm:
                seconds += training.clock() - started
                steps += len(indices) * search.beam_size * ends.steps
    return seconds / steps


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


def _memory() -> int:
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
