"""The candidates for a search's next word, from the model's logits.

Shapes: B sentences, W rows a sentence, N = B W, V words, C candidates of a row, R words that a row may not repeat.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models import native
from orchestrator.decoding.top_k import NEVER, best_of_rows


class NextWords:
    """log p(next | Y) of each row, and its best words. `eos`: that of EOS [N], whether it may be chosen or not.

    What may not be chosen (`banned` [I], `repeated` [N, R]) has its share of the probability. On a CPU one pass in C finds the best where
    there is a compiler; the candidates are the same.
    """

    def __init__(self, logits: Tensor, banned: Tensor, repeated: Tensor, eos: int, count: int) -> None:
        self.count = min(count, logits.shape[1])
        self._found: tuple[Tensor, Tensor] | None = None
        if native.runs_on(logits):
            *found, self.eos = native.best_words(logits, banned, repeated, self.count, eos)
            self._found = (found[0], found[1])
            return
        self._logprobs = logits.log_softmax(dim=-1)
        self.eos = self._logprobs[:, eos].clone()
        self._logprobs.index_fill_(1, banned, NEVER)
        self._logprobs.scatter_(1, repeated, NEVER)

    def best(self, *, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The `count` or a few more best of each row: log-probability, word [N, C], best first, of equal ones the lower word first.

        The third value is 1 where a tie reaches over the end of a list, so that its last words are arbitrary; never with `exact`.
        """
        if self._found is not None:
            return *self._found, torch.zeros((), dtype=torch.long)
        return best_of_rows(self._logprobs, self.count, exact=exact)

    def first(self) -> tuple[Tensor, Tensor]:
        """The best word of each row: log-probability, word [N, 1]."""
        if self._found is not None:
            return self._found[0][:, :1], self._found[1][:, :1]
        value, word = self._logprobs.max(dim=1, keepdim=True)
        return value, word
