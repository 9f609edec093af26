"""Updates of synthetic text and the product's training step, for single-process benchmarks."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch
from sizes import Pair

from models import Transformer
from orchestrator.data.store import Pairs
from orchestrator.specs.schema import BatchSpec, OptimSpec
from orchestrator.training.batches import Update, UpdateLoader
from orchestrator.training.objective import Normalizer, Objective
from orchestrator.training.optim import build_optimizer, set_lr


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


class TrainingStep:
    """One optimizer step: forward, backward, Adam. autocast: use bf16. keep_gradients: keep gradients allocated between steps."""

    def __init__(self, model: Transformer, device: torch.device, *, autocast: bool = False, keep_gradients: bool = False) -> None:
        self.device, self.autocast, self.keep_gradients = device, autocast, keep_gradients
        self.objective, self.optimizer = Objective(model.train(), 0.1), build_optimizer(model, OptimSpec())
        set_lr(self.optimizer, 1e-4)

    def __call__(self, update: Update) -> None:
        self.optimizer.zero_grad(set_to_none=not self.keep_gradients)
        for batch in update.micro_batches:
            tensors = (t.to(self.device, non_blocking=True) for t in (batch.src, batch.tgt_in, batch.tgt_out))
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
                loss, _ = self.objective(*tensors, Normalizer(update.src_tokens, update.tgt_tokens, 1.0))
            loss.backward()
        self.optimizer.step()
