"""Validation with teacher forcing: nll per target token, accuracy of the next token."""

from __future__ import annotations

import math

import torch

from models.transformer import Transformer
from orchestrator.data.batching import Batches, collate
from orchestrator.data.store import Pairs
from orchestrator.specs.schema import BatchSpec
from orchestrator.training.objective import token_nll
from orchestrator.training.runtime import Runtime

BATCH = BatchSpec(unit="tokens", size=4096)


class Validator:
    """Each batch belongs to one worker, and sums are added in batch order, so that N workers give the bits of one."""

    def __init__(self, pairs: Pairs, runtime: Runtime) -> None:
        order = Batches(pairs, BATCH, 0).epoch(0)
        self.runtime = runtime
        self.batches = [(i, collate(pairs, indices)) for i, indices in enumerate(order) if i % runtime.world_size == runtime.rank]
        self.count = len(order)
        self.tokens = int((pairs.tgt_lengths + 1).sum())

    def __call__(self, model: Transformer) -> dict[str, float]:
        """{valid/nll, valid/ppl, valid/accuracy}: per target token, EOS counted."""
        model.eval()
        sums = torch.zeros(self.count, 2, dtype=torch.float64, device=self.runtime.device)
        for i, batch in self.batches:
            src, tgt_in, tgt_out = (t.to(self.runtime.device) for t in (batch.src, batch.tgt_in, batch.tgt_out))
            sums[i, 0], sums[i, 1] = token_nll(model, src, tgt_in, tgt_out)
        nll, correct = (float(v) / self.tokens for v in self.runtime.sum(sums).sum(0))
        model.train()
        return {"valid/nll": nll, "valid/ppl": math.exp(min(nll, 50.0)), "valid/accuracy": correct}
