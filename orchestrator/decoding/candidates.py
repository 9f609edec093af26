"""The best candidates for the next word of each hypothesis, with exact tie-breaking.

Shapes: B sentences, W rows per sentence, N = B W, V words, C candidates per row, R words that a row may not repeat.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models import native

NEVER = float("-inf")
BLOCK = 64  # columns per block; only the blocks with the largest maxima are searched


def exact_top_k(value_NV: Tensor, count: int, *, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest values of each row and up to two more, with their columns, [N, C] each; equal values are sorted by column.

    The third result is 1 if a tie extends past the end of a list, so that its last columns are arbitrary; always 0 with `exact`.
    """
    k = min(count + 2, value_NV.shape[1])
    value, column = _top_k(value_NV, k)
    cut = value[:, -1]
    tied = torch.zeros_like(cut, dtype=torch.bool)
    if exact:  # the smallest value may occur in more columns: choose the lowest of them
        dtype = torch.float64 if value_NV.shape[1] > 2**24 else torch.float32  # exact for every column
        position = torch.arange(value_NV.shape[1], device=value_NV.device, dtype=dtype)
        lowest, other = _top_k(torch.where(value_NV == cut[:, None], -position, NEVER), k)
        value = torch.cat((value.masked_fill(value == cut[:, None], NEVER), cut[:, None].where(lowest > NEVER, NEVER)), dim=1)
        column = torch.cat((column, other), dim=1)
    elif k > count:
        tied = (cut == value[:, count - 1]) & (cut > NEVER)
    column, order = column.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value[:, :k], column.gather(1, order)[:, :k], tied.any().long()


def _top_k(value_NV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Like `Tensor.topk`, but faster on a CPU: the `k` largest values lie in the `k` blocks with the largest maxima.

    Ties between maxima are harmless, because a block that is not searched has no value above the smallest returned.
    """
    blocks = value_NV.shape[1] // BLOCK
    if value_NV.device.type != "cpu" or blocks < 4 * k:
        return value_NV.topk(k, dim=1)
    whole, rest = value_NV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)), value_NV[:, blocks * BLOCK :]
    chosen = whole.amax(2).topk(k, dim=1, sorted=False).indices[:, :, None]
    candidates = whole.gather(1, chosen.expand(-1, -1, BLOCK)).flatten(1)
    columns = (chosen * BLOCK + torch.arange(BLOCK, device=chosen.device)).flatten(1)
    if rest.shape[1]:
        candidates = torch.cat((candidates, rest), dim=1)
        last = torch.arange(blocks * BLOCK, value_NV.shape[1], device=chosen.device)
        columns = torch.cat((columns, last.expand(len(columns), -1)), dim=1)
    value, index = candidates.topk(k, dim=1)
    return value, columns.gather(1, index)


class Candidates:
    """log p(next | Y) of each row and its best words. `eos` [N] is that of EOS, even if EOS is excluded.

    Excluded words (`banned` [I], `repeated` [N, R]) still count in the normalisation. On a CPU with a compiler, one pass in C finds the
    same candidates.
    """

    def __init__(self, logits: Tensor, banned: Tensor, repeated: Tensor, eos: int, count: int) -> None:
        self.count = min(count, logits.shape[1])
        self._native: tuple[Tensor, Tensor] | None = None
        if native.runs_on(logits):
            *best, self.eos = native.best_words(logits, banned, repeated, self.count, eos)
            self._native = (best[0], best[1])
            return
        self._logprobs = logits.log_softmax(dim=-1)
        self.eos = self._logprobs[:, eos].clone()
        self._logprobs.index_fill_(1, banned, NEVER)
        self._logprobs.scatter_(1, repeated, NEVER)

    def best(self, *, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The `count` best words of each row and up to two more: (log-probability, word, tied); see `exact_top_k`."""
        if self._native is not None:
            return *self._native, torch.zeros((), dtype=torch.long)
        return exact_top_k(self._logprobs, self.count, exact=exact)

    def first(self) -> tuple[Tensor, Tensor]:
        """Log-probability and id of the best word of each row, [N, 1] each."""
        if self._native is not None:
            return self._native[0][:, :1], self._native[1][:, :1]
        value, word = self._logprobs.max(dim=1, keepdim=True)
        return value, word
