"""The loss of a micro-batch in training, and of the validation set with teacher forcing.

Shapes: B sentences, S source, T target, P real target positions.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.layout import Layout
from models.loss import chunks
from models.transformer import PAD, Output, Transformer
from orchestrator.data.batching import Batches, collate
from orchestrator.data.store import Pairs
from orchestrator.specs.schema import BatchSpec
from orchestrator.training.runtime import Runtime

SAMPLE = 16
"""The training accuracy uses one of this many target positions, which makes the cost of its argmax negligible."""
BATCH = BatchSpec(unit="tokens", size=4096)
"""Batches of the validation."""


class Normalizer(NamedTuple):
    """Normalisation of one worker's micro-batch: real tokens of the whole update on each side (tensors in a captured graph), and the factor
    that DDP's mean divides by."""

    src_tokens: int | Tensor
    tgt_tokens: int | Tensor
    scale: float


class Objective(nn.Module):
    """loss = sum of token losses / tokens of the update + sum over regularizers of weight * (mean over the update's positions)."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self, src_BS: Tensor, tgt_in_BT: Tensor, tgt_out_BT: Tensor, normalizer: Normalizer, layouts: tuple[Layout, Layout] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns (loss to differentiate, sums for the log: nll, loss and a mean per regularizer and side)."""
        output: Output = self.model(src_BS, tgt_in_BT, layouts)
        hidden_PD, gold_P, real_P = self._positions(output, tgt_out_BT)
        loss, nll = self.model.loss(hidden_PD, gold_P, self.smoothing, real_P)
        log = {"nll": nll, "loss": loss.detach()} | self._accuracy(hidden_PD, gold_P)
        loss = loss / normalizer.tgt_tokens
        for kind, side, weight, total, count in self.model.regularize(output):
            mask, tokens = (output.src_mask, normalizer.src_tokens) if side == "encoder" else (output.tgt_mask, normalizer.tgt_tokens)
            positions = mask.sum() / tokens
            term = total / count * positions
            log[f"{kind}_{side}"] = term.detach()
            loss = loss + weight * term
        return loss * normalizer.scale, log

    @staticmethod
    def _positions(output: Output, tgt_out_BT: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns hidden states and gold words of the real positions. On a GPU it returns all positions, or all rows of a layout, with a
        mask: selecting real positions would make the host wait for their number."""
        laid_out = output.packing is not None and output.packing.layout is not None
        if not (tgt_out_BT.is_cuda or laid_out):
            return output.real_hidden(), tgt_out_BT[tgt_out_BT != PAD], None
        gold_P = tgt_out_BT.flatten()[output.packing.real] if laid_out and output.packing else tgt_out_BT.flatten()
        return output.hidden.flatten(0, 1), gold_P, (gold_P != PAD).float()

    @torch.no_grad()
    def _accuracy(self, hidden_PD: Tensor, gold_P: Tensor) -> dict[str, Tensor]:
        """Returns sums over a sample of the positions: correct greedy predictions, and number of positions."""
        gold = gold_P[::SAMPLE]
        right = (self.model.logits(hidden_PD[::SAMPLE]).argmax(-1) == gold) & (gold != PAD)
        return {"right": right.sum().float(), "sampled": (gold != PAD).sum().float()}


@torch.no_grad()
def token_nll(model: Transformer, src_BS: Tensor, tgt_in_BT: Tensor, tgt_out_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (sum of nll, number of correct greedy predictions) over real target positions, both float64 []. Logits exist per chunk."""
    hidden_PD = model(src_BS, tgt_in_BT).real_hidden()
    gold_P = tgt_out_BT[tgt_out_BT != PAD]
    log_p_P1 = torch.empty(len(gold_P), 1, device=gold_P.device)
    right = torch.zeros((), dtype=torch.float64, device=gold_P.device)
    for rows in chunks(hidden_PD):
        logits = model.logits(hidden_PD[rows]).float()
        right += (logits.argmax(-1) == gold_P[rows]).sum()
        log_p_P1[rows] = logits.log_softmax(-1).gather(1, gold_P[rows, None])
    nll = F.nll_loss(log_p_P1, torch.zeros_like(gold_P), reduction="sum")  # sums in the order of cross entropy
    return nll.double(), right


class Validator:
    """Validation. Each batch belongs to one worker, and sums are added in batch order, so N workers give the same bits as one."""

    def __init__(self, pairs: Pairs, runtime: Runtime) -> None:
        order = Batches(pairs, BATCH, 0).epoch(0)
        self.runtime = runtime
        self.batches = [(i, collate(pairs, indices)) for i, indices in enumerate(order) if i % runtime.world_size == runtime.rank]
        self.count = len(order)
        self.tokens = int((pairs.tgt_lengths + 1).sum())

    def __call__(self, model: Transformer) -> dict[str, float]:
        """Returns valid/nll, valid/ppl and valid/accuracy per target token, including EOS."""
        model.eval()
        sums = torch.zeros(self.count, 2, dtype=torch.float64, device=self.runtime.device)
        for i, batch in self.batches:
            src, tgt_in, tgt_out = (t.to(self.runtime.device) for t in (batch.src, batch.tgt_in, batch.tgt_out))
            sums[i, 0], sums[i, 1] = token_nll(model, src, tgt_in, tgt_out)
        nll, correct = (float(v) / self.tokens for v in self.runtime.sum(sums).sum(0))
        model.train()
        return {"valid/nll": nll, "valid/ppl": math.exp(min(nll, 50.0)), "valid/accuracy": correct}
