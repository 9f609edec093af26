"""Updates of synthetic text and the product's training step, for single-process benchmarks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sizes import Pair
from torch import Tensor

from models.transformer import Transformer
from orchestrator.data.batching import Batch
from orchestrator.data.store import Pairs
from orchestrator.ledger.run_files import Store
from orchestrator.specs.schema import BatchSpec, OptimSpec, RunSpec
from orchestrator.training.batches import Update, UpdateLoader
from orchestrator.training.graphs import Graphs, both_passes
from orchestrator.training.objective import Normalizer, Objective
from orchestrator.training.optim import build_optimizer, set_lr
from orchestrator.training.runtime import Runtime
from orchestrator.training.trainer import Trainer


def store(pairs: Sequence[Pair]) -> Pairs:
    """Converts pairs to the format of prepared data."""
    sides = []
    for side in (0, 1):
        lengths = [len(pair[side]) for pair in pairs]
        sides += [np.array([word for pair in pairs for word in pair[side]], dtype=np.uint16), np.cumsum([0, *lengths], dtype=np.int64)]
    return Pairs(*sides)


def updates_of(pairs: Sequence[Pair], tokens: int, count: int) -> list[Update]:
    """Returns the first `count` updates of an epoch with batches of `tokens` padded target tokens."""
    return list(islice(UpdateLoader(store(pairs), BatchSpec(unit="tokens", size=tokens), seed=1).updates(0, 0), count))


def trainer_of(spec: RunSpec, pairs: Sequence[Pair], vocab: int) -> Trainer:
    """A training on synthetic text, whose updates write nothing."""
    data: Any = SimpleNamespace(src_size=vocab, tgt_size=vocab, pairs=lambda split: store(pairs))
    return Trainer(spec, Runtime(), [], data, Store(Path(), ""))


def in_form(updates: Sequence[Update], form: Callable[[Batch], Batch], device: torch.device) -> list[Update]:
    """The updates as they reach a device; pinned for a GPU."""

    def made(batch: Batch) -> Batch:
        return form(batch).map(Tensor.pin_memory) if device.type == "cuda" else form(batch)

    return [replace(update, micro_batches=[made(batch) for batch in update.micro_batches]) for update in updates]


class TrainingStep:
    """One optimizer step: forward, backward, Adam. autocast: use bf16. keep_gradients: keep gradients allocated between steps. Batches of a
    shape are captured and replayed (`orchestrator.training.graphs`)."""

    def __init__(self, model: Transformer, device: torch.device, *, autocast: bool = False, keep_gradients: bool = False) -> None:
        self.keep_gradients = keep_gradients
        self.objective, self.optimizer = Objective(model.train(), 0.1), build_optimizer(model, OptimSpec())
        self.graphs = Graphs(both_passes(self.objective, device, bf16=autocast), model.parameters(), device)
        set_lr(self.optimizer, 1e-4)

    def __call__(self, update: Update) -> None:
        self.optimizer.zero_grad(set_to_none=not self.keep_gradients)
        for batch in update.micro_batches:
            self.graphs(batch, Normalizer(update.src_tokens, update.tgt_tokens, 1.0), alone=len(update.micro_batches) == 1)
        self.optimizer.step()
