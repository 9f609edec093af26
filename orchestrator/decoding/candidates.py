"""The best candidates for the next word of each hypothesis, with exact tie-breaking.

Shapes: B sentences, W rows per sentence, N = B W, V words, C candidates per row, R words that a row may not repeat.
"""

import torch
from torch import Tensor

from models import native

NEVER = float("-inf")


def exact_top_k(value_NV: Tensor, count: int, *, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest values of each row and up to two more, with their columns, [N, C] each; equal values are sorted by column.

    The third result is 1 if a tie extends past a list's end, so its last columns are arbitrary; 0 with `exact`, which sorts whole rows.
    """
    k = min(count + 2, value_NV.shape[1])
    if exact:
        value, column = value_NV.sort(dim=1, descending=True, stable=True)
        return value[:, :k], column[:, :k], torch.zeros((), dtype=torch.long, device=value.device)
    value, column = value_NV.topk(k, dim=1)
    cut = value[:, -1]
    tied = (cut == value[:, count - 1]) & (cut > NEVER) if k > count else torch.zeros_like(cut, dtype=torch.bool)
    column, order = column.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value, column.gather(1, order), tied.any().long()


class Candidates:
    """log p(next | Y) of each row and its best words. `eos` [N] is that of EOS, even if EOS is excluded. Excluded words (`banned` [I],
    `repeated` [N, R]) still count in the normalisation. On a CPU with a compiler, one pass in C finds the same candidates."""

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
