"""The loss of one micro-batch as a module, so that DDP wraps all of it.

Shapes: B sentences, S source, T target, P real target positions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.loss import chunks
from models.transformer import PAD, Output, Transformer

SAMPLE = 16
"""The training accuracy samples one target position in so many, so that its argmax costs next to nothing."""


class Normalizer(NamedTuple):
    """Divisors of one worker's micro-batch: real tokens of the whole update on each side, and the factor that DDP's mean divides by."""

    src_tokens: int
    tgt_tokens: int
    scale: float


class Objective(nn.Module):
    """loss = sum of token losses / tokens of the update + sum over regularizers of weight * (mean over the update's positions)."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, src_BS: Tensor, tgt_in_BT: Tensor, tgt_out_BT: Tensor, normalizer: Normalizer) -> tuple[Tensor, dict[str, Tensor]]:
        """(loss to differentiate, sums for the log: nll, loss and a mean per regularizer and side)."""
        output: Output = self.model(src_BS, tgt_in_BT)
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
        """Hidden states and gold words of the real positions; on a GPU of all positions with a mask, because selecting the real ones would
        make the host wait for their number."""
        if not tgt_out_BT.is_cuda:
            return output.real_hidden(), tgt_out_BT[tgt_out_BT != PAD], None
        gold_P = tgt_out_BT.flatten()
        return output.hidden.flatten(0, 1), gold_P, (gold_P != PAD).float()

    @torch.no_grad()
    def _accuracy(self, hidden_PD: Tensor, gold_P: Tensor) -> dict[str, Tensor]:
        """Sums over a sample of the positions: correct greedy predictions, and positions."""
        gold = gold_P[::SAMPLE]
        right = (self.model.logits(hidden_PD[::SAMPLE]).argmax(-1) == gold) & (gold != PAD)
        return {"right": right.sum().float(), "sampled": (gold != PAD).sum().float()}


@torch.no_grad()
def token_nll(model: Transformer, src_BS: Tensor, tgt_in_BT: Tensor, tgt_out_BT: Tensor) -> tuple[Tensor, Tensor]:
    """(sum of nll, number of correct greedy predictions) over real target positions, both float64 [].

    The logits of one chunk of positions exist at a time; the sum has the bits of one cross entropy over all of them.
    """
    hidden_PD = model(src_BS, tgt_in_BT).real_hidden()
    gold_P = tgt_out_BT[tgt_out_BT != PAD]
    log_p_P1 = torch.empty(len(gold_P), 1, device=gold_P.device)
    right = torch.zeros((), dtype=torch.float64, device=gold_P.device)
    for rows in chunks(hidden_PD):
        logits = model.logits(hidden_PD[rows]).float()
        right += (logits.argmax(-1) == gold_P[rows]).sum()
        log_p_P1[rows] = logits.log_softmax(-1).gather(1, gold_P[rows, None])
    nll = F.nll_loss(log_p_P1, torch.zeros_like(gold_P), reduction="sum")  # adds in cross entropy's order
    return nll.double(), right
